import type {
	IAuthenticateGeneric,
	Icon,
	ICredentialTestRequest,
	ICredentialType,
	INodeProperties,
} from 'n8n-workflow';

export class CorralApi implements ICredentialType {
	name = 'corralApi';

	displayName = 'Corral API';

	icon: Icon = { light: 'file:../icons/corral.svg', dark: 'file:../icons/corral.dark.svg' };

	documentationUrl = 'https://corral.example.org/guides/n8n/';

	properties: INodeProperties[] = [
		{
			displayName: 'Address',
			name: 'baseUrl',
			type: 'string',
			default: 'http://127.0.0.1:4747',
			required: true,
			description: 'Address that <code>corral serve</code> prints, without a path',
		},
		{
			displayName: 'Token',
			name: 'token',
			type: 'string',
			typeOptions: { password: true },
			default: '',
			required: true,
			description:
				'Printed by <code>corral token new --name n8n --scope run</code>; merging needs the scope merge, the trigger node admin',
		},
	];

	authenticate: IAuthenticateGeneric = {
		type: 'generic',
		properties: { headers: { Authorization: '=Bearer {{$credentials.token}}' } },
	};

	test: ICredentialTestRequest = {
		request: { baseURL: '={{$credentials.baseUrl}}', url: '/api/v1/tokens/me' },
	};
}
