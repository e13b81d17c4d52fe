import type { IDataObject, IExecuteFunctions } from 'n8n-workflow';
import { NodeOperationError } from 'n8n-workflow';

import { part, request } from './request';

export type Operation = (context: IExecuteFunctions, item: number) => Promise<IDataObject | IDataObject[]>;

/** The fields of `POST /runs` that are lists; a user writes them one to a line. */
const LISTS = ['agents', 'checks', 'files', 'tasks'];

function runOf(context: IExecuteFunctions, item: number): string {
	const run = String(context.getNodeParameter('run', item) ?? '').trim();
	if (!run) {
		throw new NodeOperationError(context.getNode(), 'The run is missing', {
			description: 'Give its ID, the beginning of one, or @last.',
			itemIndex: item,
		});
	}
	return part(run);
}

export function lines(text: unknown): string[] {
	const parts = Array.isArray(text) ? text.map(String) : String(text ?? '').split('\n');
	return parts.map((each) => each.trim()).filter((each) => each !== '');
}

/** Reads JSON that a user wrote, or that an expression made. */
export function table(context: IExecuteFunctions, name: string, value: unknown, item: number): IDataObject {
	let found = value;
	if (typeof value === 'string') {
		try {
			found = value.trim() === '' ? {} : JSON.parse(value);
		} catch {
			found = undefined;
		}
	}
	if (typeof found !== 'object' || found === null || Array.isArray(found)) {
		throw new NodeOperationError(context.getNode(), `${name} is not a JSON object`, {
			description: 'Write it as {"key": "value"}.',
			itemIndex: item,
		});
	}
	return found as IDataObject;
}

/** Names one start, so that n8n's "Retry On Fail" never starts a second run. */
function startKey(context: IExecuteFunctions, item: number): string | undefined {
	const execution = context.getExecutionId();
	if (!execution) return undefined;
	const turn = String(context.evaluateExpression('{{ $runIndex }}', item));
	const parts = [context.getInstanceId(), context.getWorkflow().id, execution, context.getNode().id, turn, item];
	return parts.map((each) => String(each).slice(0, 64)).join('/').slice(0, 200);
}

/** The fields of `POST /runs` that Start and a flow share. */
function submission(context: IExecuteFunctions, item: number): IDataObject {
	const options = context.getNodeParameter('options', item, {}) as IDataObject;
	const body: IDataObject = { repo: context.getNodeParameter('repo', item, '') };
	for (const [name, value] of Object.entries(options)) {
		if (value === '' || name === 'key') continue;
		if (name === 'labels') body.labels = table(context, 'Labels', value, item);
		else if (LISTS.includes(name)) body[name] = lines(value);
		else if (name === 'more') Object.assign(body, table(context, 'More Fields', value, item));
		else body[name] = value;
	}
	return body;
}

async function submit(context: IExecuteFunctions, item: number, body: IDataObject): Promise<IDataObject> {
	const options = context.getNodeParameter('options', item, {}) as IDataObject;
	const key = (options.key as string) || startKey(context, item);
	const headers = key === undefined ? undefined : { 'Idempotency-Key': key };
	return (await request(context, { method: 'POST', path: 'runs', body, headers, item })) as IDataObject;
}

const start: Operation = async (context, item) => {
	const body = submission(context, item);
	const agents = lines(context.getNodeParameter('agents', item, ''));
	const checks = lines(context.getNodeParameter('checks', item, ''));
	body.task = context.getNodeParameter('task', item);
	if (agents.length) body.agents = agents;
	if (checks.length) body.checks = checks;
	return await submit(context, item, body);
};

const runFlow: Operation = async (context, item) => {
	const body = submission(context, item);
	if (context.getNodeParameter('source', item, 'text') === 'name') {
		const query = { repo: body.repo };
		const name = part(context.getNodeParameter('flowName', item) as string);
		const found = (await request(context, { method: 'GET', path: `flows/${name}`, query, item })) as IDataObject;
		body.flow = found.flow;
	} else {
		body.flow = context.getNodeParameter('flow', item);
	}
	body.inputs = table(context, 'Inputs', context.getNodeParameter('inputs', item, {}), item);
	return await submit(context, item, body);
};

const get: Operation = async (context, item) =>
	(await request(context, { method: 'GET', path: `runs/${runOf(context, item)}`, item })) as IDataObject;

const stop: Operation = async (context, item) =>
	(await request(context, { method: 'POST', path: `runs/${runOf(context, item)}/stop`, item })) as IDataObject;

const diff: Operation = async (context, item) => {
	const attempt = context.getNodeParameter('attempt', item, '') as string;
	const query = attempt ? { attempt } : undefined;
	return (await request(context, { method: 'GET', path: `runs/${runOf(context, item)}/diff`, query, item })) as IDataObject;
};

function mergeBody(context: IExecuteFunctions, item: number): IDataObject {
	const body: IDataObject = { strategy: context.getNodeParameter('strategy', item, 'auto') };
	for (const name of ['into', 'pick']) {
		const value = context.getNodeParameter(name, item, '') as string;
		if (value) body[name] = value;
	}
	return body;
}

const preview: Operation = async (context, item) => {
	const path = `runs/${runOf(context, item)}/merge/preview`;
	const body = mergeBody(context, item);
	const found = (await request(context, { method: 'POST', path, body, item })) as IDataObject;
	return { ...found, clean: ((found.conflicts ?? []) as unknown[]).length === 0 };
};

/** A conflict is a result with `merge.status` "conflict", not an error: the workflow branches on it. */
const merge: Operation = async (context, item) => {
	const call = { path: `runs/${runOf(context, item)}/merge`, body: mergeBody(context, item), item };
	const found = (await request(context, { ...call, method: 'POST', accepted: [409] })) as IDataObject;
	if (found.merge !== undefined) return found;
	throw new NodeOperationError(context.getNode(), (found.detail as string) ?? 'Corral refused the merge', {
		description: found.hint as string,
		itemIndex: item,
	});
};

const undo: Operation = async (context, item) =>
	(await request(context, { method: 'POST', path: `runs/${runOf(context, item)}/undo`, item })) as IDataObject;

const list: Operation = async (context, item) => {
	const query = context.getNodeParameter('all', item, false) ? { all: true } : undefined;
	const found = (await request(context, { method: 'GET', path: 'inbox', query, item })) as IDataObject[];
	const run = (context.getNodeParameter('ofRun', item, '') as string).trim();
	return run ? found.filter((each) => String(each.run).startsWith(run)) : found;
};

const answer: Operation = async (context, item) => {
	const entry = part(String(context.getNodeParameter('entry', item)));
	const body = { answer: String(context.getNodeParameter('answer', item)) };
	return (await request(context, { method: 'POST', path: `inbox/${entry}`, body, item })) as IDataObject;
};

export const OPERATIONS: Record<string, Record<string, Operation>> = {
	run: { start, get, stop, diff, preview, merge, undo },
	inbox: { list, answer },
	flow: { run: runFlow },
};
