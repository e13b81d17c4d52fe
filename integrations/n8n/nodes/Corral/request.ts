import type {
	IDataObject,
	IExecuteFunctions,
	IHookFunctions,
	IHttpRequestMethods,
	IWebhookFunctions,
	JsonObject,
} from 'n8n-workflow';
import { NodeApiError } from 'n8n-workflow';

export type Context = IExecuteFunctions | IHookFunctions | IWebhookFunctions;

export interface Call {
	method: IHttpRequestMethods;
	path: string;
	body?: IDataObject;
	query?: IDataObject;
	headers?: Record<string, string>;
	/** Statuses besides 2xx that are an answer, not an error. */
	accepted?: number[];
	item?: number;
}

interface Answer {
	statusCode: number;
	body: unknown;
}

/** Sends one request to the API of Corral; what it refuses becomes an error with its detail and its hint. */
export async function request(context: Context, call: Call): Promise<unknown> {
	const credentials = await context.getCredentials<{ baseUrl: string }>('corralApi', call.item);
	const address = credentials.baseUrl.trim().replace(/\/+$/, '');
	let answer: Answer;
	try {
		answer = (await context.helpers.httpRequestWithAuthentication.call(context, 'corralApi', {
			method: call.method,
			url: `${address}/api/v1/${call.path}`,
			json: true,
			body: call.body,
			qs: call.query,
			headers: call.headers,
			timeout: 120_000,
			disableFollowRedirect: true,
			returnFullResponse: true,
			ignoreHttpStatusErrors: true,
		})) as Answer;
	} catch (error) {
		throw new NodeApiError(context.getNode(), error as JsonObject, {
			message: `Corral does not answer at ${address}`,
			description: `${(error as Error).message}. Start it with "corral serve", or correct the address in the credential.`,
			itemIndex: call.item,
		});
	}
	const known = answer.statusCode >= 200 && answer.statusCode < 300;
	if (known || call.accepted?.includes(answer.statusCode)) return answer.body;
	throw refusal(context, call, answer);
}

function refusal(context: Context, call: Call, answer: Answer): NodeApiError {
	const problem = (answer.body ?? {}) as { detail?: string; hint?: string; code?: string };
	const said = typeof problem === 'object' ? problem : {};
	return new NodeApiError(context.getNode(), said as JsonObject, {
		message: said.detail ?? `Corral answered ${answer.statusCode} to ${call.method} ${call.path}`,
		description: said.hint ?? (answer.statusCode === 401 ? 'Check the token of the credential.' : undefined),
		httpCode: String(answer.statusCode),
		itemIndex: call.item,
	});
}

/** Encodes one part of a path; "." and "..", which would lead to another path, become a name that nothing has. */
export function part(name: string): string {
	return encodeURIComponent(name.trim().replace(/^\.{1,2}$/, '-'));
}
