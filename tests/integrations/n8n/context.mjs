// What n8n gives to a node as `this`, as far as the nodes of Corral use it, over real HTTP.
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { once } from 'node:events';
import path from 'node:path';

export const { DIST, PACKAGE, CORRAL_URL, CORRAL_TOKEN, REPO, SIGNS } = process.env;
const load = createRequire(path.join(DIST, 'index.js'));
export const { Corral } = load('./nodes/Corral/Corral.node.js');
export const { CorralTrigger } = load('./nodes/CorralTrigger/CorralTrigger.node.js');
export const { CorralApi } = load('./credentials/CorralApi.credentials.js');

let executions = 0;

export class Context {
	constructor(parameters = {}, more = {}) {
		this.parameters = parameters;
		this.items = more.items ?? [{ json: {} }];
		this.credentials = { baseUrl: CORRAL_URL, token: CORRAL_TOKEN, ...more.credentials };
		this.execution = more.execution ?? `e${++executions}`;
		this.tolerant = more.tolerant ?? false;
		this.resumeUrl = more.resumeUrl ?? '';
		this.kept = more.kept ?? {};
		this.waitsUntil = null;
		const context = this;
		this.helpers = { httpRequestWithAuthentication: (...sent) => context.#send(...sent) };
	}

	async #send(name, { method, url, body, qs, headers, ignoreHttpStatusErrors, timeout }) {
		const [key, value] = Object.entries(new CorralApi().authenticate.properties.headers)[0];
		const address = new URL(url);
		for (const [field, text] of Object.entries(qs ?? {})) address.searchParams.set(field, String(text));
		const answer = await fetch(address, {
			method,
			headers: {
				...headers,
				...(body ? { 'content-type': 'application/json' } : {}),
				[key]: value.replace('=', '').replace('{{$credentials.token}}', this.credentials.token),
			},
			body: body ? JSON.stringify(body) : undefined,
			signal: AbortSignal.timeout(timeout),
			redirect: 'manual',
		});
		const text = await answer.text();
		const kind = answer.headers.get('content-type') ?? '';
		if (!ignoreHttpStatusErrors && !answer.ok) throw new Error(`${answer.status}`);
		return { statusCode: answer.status, body: kind.includes('json') && text ? JSON.parse(text) : text };
	}

	getNode() {
		return { id: 'node1', name: 'Corral', type: 'corral', typeVersion: 1, position: [0, 0], parameters: this.parameters };
	}
	getNodeParameter(name, item = 0, fallback = undefined) {
		const other = typeof item === 'number' ? fallback : item;
		const found = this.parameters[name] ?? other;
		if (found === undefined) throw new Error(`no parameter ${name}`);
		return typeof found === 'string' && found.startsWith('=') ? this.evaluateExpression(found.slice(1), item) : found;
	}
	evaluateExpression(text, item = 0) {
		const known = {
			'{{ $runIndex }}': () => 0,
			'{{ $execution.resumeUrl }}': () => this.resumeUrl,
			'{{ $input.all().length }}': () => this.items.length,
			'{{ $json.run }}': () => this.items[item].json.run,
			'{{ $json.id }}': () => this.items[item].json.id,
		};
		return known[text]();
	}
	getInputData() { return this.items; }
	async getCredentials() { return this.credentials; }
	continueOnFail() { return this.tolerant; }
	getExecutionId() { return this.execution; }
	getInstanceId() { return 'instance'; }
	getWorkflow() { return { id: 'workflow1', name: 'w' }; }
	getExecutionCancelSignal() { return undefined; }
	async putExecutionToWait(until) { this.waitsUntil = until; }
	getWorkflowStaticData() { return this.kept; }
	getNodeWebhookUrl() { return this.webhookUrl; }
	getRequestObject() { return this.request; }
	getBodyData() { return JSON.parse(this.request.rawBody); }
	getResponseObject() {
		const context = this;
		return {
			status(code) { context.answered = code; return this; },
			json() { return this; },
			end() { return this; },
		};
	}
}

/** Performs one operation of the node; returns the JSON of its items. */
export async function perform(parameters, more = {}) {
	const [items] = await new Corral().execute.call(new Context({ resource: 'run', everySeconds: 1, ...parameters }, more));
	return items.map((each) => each.json);
}

export const start = async (fields, more) =>
	(await perform({ operation: 'start', task: 't', repo: REPO, ...fields }, more))[0];

export const waited = async (run) => (await perform({ operation: 'wait', run, limitMinutes: 5 }))[0];

/** Receives posts as n8n does; each is handed to `taken` with its raw body. */
export async function receiver() {
	const got = [];
	const server = createServer(async (request, response) => {
		const parts = [];
		for await (const part of request) parts.push(part);
		got.push({ headers: request.headers, rawBody: Buffer.concat(parts) });
		response.end('{}');
		server.emit('got');
	});
	server.listen(0, '127.0.0.1');
	await once(server, 'listening');
	return {
		url: `http://127.0.0.1:${server.address().port}/webhook`,
		next: async () => {
			while (!got.length) await once(server, 'got');
			return got.shift();
		},
		close: () => { server.closeAllConnections(); server.close(); },
	};
}
