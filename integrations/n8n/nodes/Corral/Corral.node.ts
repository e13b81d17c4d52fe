import type {
	IExecuteFunctions,
	INodeExecutionData,
	INodeType,
	INodeTypeDescription,
	IWebhookFunctions,
	IWebhookResponseData,
} from 'n8n-workflow';
import { NodeConnectionTypes, NodeOperationError } from 'n8n-workflow';

import { PROPERTIES } from './properties';
import type { Operation } from './runs';
import { OPERATIONS } from './runs';
import { poll, RESUME, resumed, suspend } from './wait';

export class Corral implements INodeType {
	description: INodeTypeDescription = {
		displayName: 'Corral',
		name: 'corral',
		icon: { light: 'file:../../icons/corral.svg', dark: 'file:../../icons/corral.dark.svg' },
		group: ['transform'],
		version: 1,
		subtitle: '={{ $parameter["operation"] + ": " + $parameter["resource"] }}',
		description: 'Run coding agents on tasks: isolated, budgeted, checked, merged',
		defaults: { name: 'Corral' },
		usableAsTool: true,
		inputs: [NodeConnectionTypes.Main],
		outputs: [NodeConnectionTypes.Main],
		credentials: [{ name: 'corralApi', required: true }],
		webhooks: RESUME,
		properties: PROPERTIES,
	};

	async execute(this: IExecuteFunctions): Promise<INodeExecutionData[][]> {
		const resource = this.getNodeParameter('resource', 0) as string;
		const operation = this.getNodeParameter('operation', 0) as string;
		if (operation === 'wait' && this.getNodeParameter('mode', 0, 'poll') === 'callback') {
			return [await suspend(this)];
		}
		const perform = operation === 'wait' ? poll : OPERATIONS[resource]?.[operation];
		if (!perform) {
			throw new NodeOperationError(this.getNode(), `The operation ${resource}: ${operation} is not known`);
		}
		const results: INodeExecutionData[] = [];
		for (let item = 0; item < this.getInputData().length; item++) {
			const found = await (this.continueOnFail() ? tolerant(perform) : perform)(this, item);
			for (const json of Array.isArray(found) ? found : [found]) {
				results.push({ json, pairedItem: { item } });
			}
		}
		return [results];
	}

	/** Resumes a workflow that waits by callback. */
	async webhook(this: IWebhookFunctions): Promise<IWebhookResponseData> {
		const items = await resumed(this);
		return items ? { workflowData: [items] } : { webhookResponse: 'The run is not over: still waiting.' };
	}
}

/** Makes an item of what goes wrong, for a workflow that continues on errors. */
function tolerant(perform: Operation): Operation {
	return async (context, item) =>
		await perform(context, item).catch(({ message, description }: NodeOperationError) => ({
			error: message,
			hint: description ?? null,
		}));
}
