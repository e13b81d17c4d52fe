import type { IDataObject, IExecuteFunctions, INodeExecutionData, IWebhookDescription, IWebhookFunctions } from 'n8n-workflow';
import { NodeOperationError, sleepWithAbort, WAIT_INDEFINITELY } from 'n8n-workflow';

import { part, request } from './request';

type Waiting = IExecuteFunctions | IWebhookFunctions;

/** A run with one of these continues by itself; "waiting" is not among them, for a user has to answer. */
const CONTINUES = ['queued', 'running', 'paused', 'limited'];

/** The address at which n8n resumes an execution; it exists only while one waits, so there is nothing to register. */
export const RESUME: IWebhookDescription[] = [
	{ name: 'default', httpMethod: 'POST', responseMode: 'onReceived', path: '', restartWebhook: true },
];

async function show(context: Waiting, run: string): Promise<IDataObject> {
	return (await request(context, { method: 'GET', path: `runs/${part(run)}` })) as IDataObject;
}

/** Tells whether a run is over or waits for an answer; one whose question was just answered continues. */
async function isReady(context: Waiting, run: IDataObject): Promise<boolean> {
	if (run.status !== 'waiting') return !CONTINUES.includes(run.status as string);
	const open = (await request(context, { method: 'GET', path: 'inbox' })) as IDataObject[];
	return open.some((each) => each.run === run.run);
}

/** Asks for a run every few seconds until it is over or waits for an answer. */
export async function poll(context: IExecuteFunctions, item: number): Promise<IDataObject> {
	const run = context.getNodeParameter('run', item) as string;
	const limit = (context.getNodeParameter('limitMinutes', item, 60) as number) * 60_000;
	const every = Math.max(1, context.getNodeParameter('everySeconds', item, 5) as number) * 1000;
	const end = Date.now() + limit;
	for (;;) {
		const found = await show(context, run);
		if (await isReady(context, found)) return found;
		if (Date.now() + every > end) {
			throw new NodeOperationError(context.getNode(), `The run ${found.run as string} is still ${found.status as string}`, {
				description: 'It continues in Corral. Raise the limit, or wait by callback.',
				itemIndex: item,
			});
		}
		await sleepWithAbort(every, context.getExecutionCancelSignal());
	}
}

/** Stops this execution of n8n, without a process, until Corral has called for every run. */
export async function suspend(context: IExecuteFunctions): Promise<INodeExecutionData[]> {
	const items = context.getInputData();
	const runs = items.map((_, item) => context.getNodeParameter('run', item) as string);
	const url = String(context.evaluateExpression('{{ $execution.resumeUrl }}', 0));
	for (const [item, run] of runs.entries()) {
		await request(context, { method: 'POST', path: `runs/${part(run)}/callback`, body: { url }, item });
	}
	const minutes = context.getNodeParameter('limitMinutes', 0, 60) as number;
	const end = minutes > 0 ? new Date(Date.now() + minutes * 60_000) : WAIT_INDEFINITELY;
	await context.putExecutionToWait(end);
	return items; // what continues if nothing calls within the limit
}

/** Returns the runs of all items if none of them continues by itself: Corral is asked, the call is not believed. */
export async function resumed(context: IWebhookFunctions): Promise<INodeExecutionData[] | undefined> {
	const written = context.getNode().parameters.run as string;
	const count = Number(context.evaluateExpression('{{ $input.all().length }}', 0)) || 1;
	const found: INodeExecutionData[] = [];
	for (let item = 0; item < count; item++) {
		const name = written.startsWith('=') ? String(context.evaluateExpression(written.slice(1), item)) : written;
		const run = await show(context, name);
		if (!(await isReady(context, run))) return undefined;
		found.push({ json: run, pairedItem: { item } });
	}
	return found;
}
