import { createHmac, timingSafeEqual } from 'crypto';

const PREFIX = 'whsec_';
const TOLERANCE_SECONDS = 300;

export interface Signed {
	id: string;
	timestamp: string;
	signature: string;
	body: Buffer;
}

/** Tells whether a call was signed with this secret a moment ago, as Standard Webhooks describes it. */
export function isSigned(secret: string, call: Signed, nowSeconds: number): boolean {
	if (!secret || !call.id || !/^\d{1,15}$/.test(call.timestamp)) return false;
	if (Math.abs(nowSeconds - Number(call.timestamp)) > TOLERANCE_SECONDS) return false;
	const key = secret.startsWith(PREFIX) ? Buffer.from(secret.slice(PREFIX.length), 'base64') : Buffer.from(secret);
	const digest = createHmac('sha256', key).update(`${call.id}.${call.timestamp}.`).update(call.body).digest('base64');
	const right = Buffer.from(`v1,${digest}`);
	return call.signature.split(' ').some((each) => {
		const found = Buffer.from(each);
		return found.length === right.length && timingSafeEqual(found, right);
	});
}
