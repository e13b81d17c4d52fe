import type {
	IDataObject,
	IHookFunctions,
	INodeType,
	INodeTypeDescription,
	IWebhookFunctions,
	IWebhookResponseData,
} from 'n8n-workflow';
import { NodeConnectionTypes } from 'n8n-workflow';

import { part, request } from '../Corral/request';
import { isSigned } from './signature';

const MOST_SEEN = 200;

interface Kept extends IDataObject {
	webhook?: string;
	secret?: string;
	/** IDs of the newest calls: Corral repeats a call that got no answer in time. */
	seen?: string[];
}

const EVENTS = [
	{ name: 'Question Answered', value: 'inbox.answered', description: 'An entry of the inbox was answered' },
	{ name: 'Question Opened', value: 'inbox.opened', description: 'Something waits for a user' },
	{ name: 'Run Done', value: 'run.done' },
	{ name: 'Run Failed', value: 'run.failed' },
	{ name: 'Run Limited', value: 'run.limited', description: 'A run is parked until a quota is available again' },
	{ name: 'Run Over Budget', value: 'run.over_budget' },
	{ name: 'Run Partial', value: 'run.partial', description: 'Some nodes of a run are done, others failed' },
	{ name: 'Run Started', value: 'run.running' },
	{ name: 'Run Stopped', value: 'run.stopped' },
	{ name: 'Run Timed Out', value: 'run.timed_out' },
	{ name: 'Run Waiting', value: 'run.waiting', description: 'A run waits for an answer' },
];

export class CorralTrigger implements INodeType {
	description: INodeTypeDescription = {
		displayName: 'Corral Trigger',
		name: 'corralTrigger',
		icon: { light: 'file:../../icons/corral.svg', dark: 'file:../../icons/corral.dark.svg' },
		group: ['trigger'],
		version: 1,
		subtitle: '={{ $parameter["events"].join(", ") }}',
		description: 'Starts the workflow when something happens in Corral',
		defaults: { name: 'Corral Trigger' },
		inputs: [],
		outputs: [NodeConnectionTypes.Main],
		credentials: [{ name: 'corralApi', required: true }],
		webhooks: [{ name: 'default', httpMethod: 'POST', responseMode: 'onReceived', path: 'corral' }],
		properties: [
			{
				displayName: 'The credential needs a token with the scope admin, because it adds a webhook to Corral.',
				name: 'notice',
				type: 'notice',
				default: '',
			},
			{
				displayName: 'Events',
				name: 'events',
				type: 'multiOptions',
				options: EVENTS,
				default: ['run.done', 'run.failed', 'run.waiting'],
				required: true,
			},
			{
				displayName: 'Get the Run',
				name: 'withRun',
				type: 'boolean',
				default: true,
				description: 'Whether to output the whole run document as run, not the event alone',
			},
		],
	};

	webhookMethods = {
		default: {
			async checkExists(this: IHookFunctions): Promise<boolean> {
				const kept = this.getWorkflowStaticData('node') as Kept;
				if (!kept.webhook || !kept.secret) return false;
				const found = (await request(this, { method: 'GET', path: 'webhooks' })) as IDataObject[];
				const url = this.getNodeWebhookUrl('default');
				const wanted = JSON.stringify([...(this.getNodeParameter('events') as string[])].sort());
				const fits = (each: IDataObject) =>
					each.url === url && each.enabled === true && JSON.stringify([...(each.types as string[])].sort()) === wanted;
				if (found.some((each) => each.id === kept.webhook && fits(each))) return true;
				await remove(this, kept);
				return false;
			},

			async create(this: IHookFunctions): Promise<boolean> {
				const body = { url: this.getNodeWebhookUrl('default'), types: this.getNodeParameter('events') as string[] };
				const made = (await request(this, { method: 'POST', path: 'webhooks', body })) as IDataObject;
				const kept = this.getWorkflowStaticData('node') as Kept;
				kept.webhook = made.id as string;
				kept.secret = made.secret as string;
				return true;
			},

			async delete(this: IHookFunctions): Promise<boolean> {
				await remove(this, this.getWorkflowStaticData('node') as Kept);
				return true;
			},
		},
	};

	async webhook(this: IWebhookFunctions): Promise<IWebhookResponseData> {
		const kept = this.getWorkflowStaticData('node') as Kept;
		const sent = this.getRequestObject();
		const header = (name: string) => String(sent.headers[name] ?? '');
		const id = header('webhook-id');
		const signed = { id, timestamp: header('webhook-timestamp'), signature: header('webhook-signature') };
		const body = (sent as { rawBody?: Buffer }).rawBody;
		if (!body || !isSigned(kept.secret ?? '', { ...signed, body }, Date.now() / 1000)) {
			this.getResponseObject().status(401).json({ detail: 'The signature is not that of Corral' }).end();
			return { noWebhookResponse: true };
		}
		if (kept.seen?.includes(id)) return { webhookResponse: 'Known already' };
		const event = this.getBodyData();
		const data = (event.data ?? {}) as IDataObject;
		const json: IDataObject = { ...event };
		if (this.getNodeParameter('withRun', true) && data.run) {
			json.run = (await request(this, { method: 'GET', path: `runs/${part(String(data.run))}` })) as IDataObject;
		}
		kept.seen = [id, ...(kept.seen ?? [])].slice(0, MOST_SEEN);
		return { workflowData: [[{ json }]] };
	}
}

/** Removes the webhook that this node added; one that is gone already is fine. */
async function remove(context: IHookFunctions, kept: Kept): Promise<void> {
	if (!kept.webhook) return;
	await request(context, { method: 'DELETE', path: `webhooks/${part(kept.webhook)}`, accepted: [404] });
	delete kept.webhook;
	delete kept.secret;
	delete kept.seen;
}
