/** The settings of single sign-on: first those that clients of the API know. */
import { z } from 'zod'
import { GatewayError } from '../base/errors.js'
import type { SettingRows } from './settings-table.js'

const mapSchema = z.record(z.string(), z.string())

/**
 * Names of groups here, by the names of groups at a provider or in a directory. Throws `invalid` unless the text is
 * empty or a JSON object of texts.
 */
export function groupMap(text: string): Readonly<Record<string, string>> {
  if (text.trim() === '') return {}
  try {
    return mapSchema.parse(JSON.parse(text))
  } catch (error) {
    throw new GatewayError('invalid', { reason: 'it must be a JSON object of group names', cause: error })
  }
}

export const singleSignOnSettings: SettingRows = {
  sso_login_enabled: ['bool', 'false', 'public', 'Clients offer single sign-on.'],
  sso_login_platform: [
    'select',
    '',
    'public',
    'The identity provider.',
    { options: ['Casdoor', 'Github', 'Microsoft', 'Google', 'Dingtalk', 'OIDC'] },
  ],
  sso_client_id: ['string', '', 'private', 'Client id of this site at the provider.'],
  sso_client_secret: ['string', '', 'private', 'Client secret of this site at the provider.', { secret: true }],
  sso_oidc_username_key: ['string', 'name', 'private', 'Claim that contains the user name.'],
  sso_organization_name: ['string', '', 'private', 'Organization, for Casdoor.'],
  sso_application_name: ['string', '', 'private', 'Application, for Casdoor.'],
  sso_endpoint_name: ['string', '', 'private', 'URL of the provider, for Casdoor and OIDC.'],
  sso_jwt_public_key: ['string', '', 'private', 'Public key for the tokens of the provider, for Casdoor.'],
  sso_extra_scopes: ['string', '', 'private', 'Additional scopes to request, separated by spaces.'],
  sso_auto_register: ['bool', 'false', 'private', 'An account is created at the first sign-in.'],
  sso_default_dir: ['string', '/', 'private', 'Base folder of created accounts.'],
  sso_default_permission: ['number', '0', 'private', 'Permissions of created accounts, as the sum of their bits.'],
  sso_compatibility_mode: ['bool', 'false', 'public', 'Sign-in uses a redirect instead of a window.'],
  sso_recheck_days: [
    'number',
    '7',
    'private',
    'Days after which the app passwords, SSH keys and passwords of accounts that a provider or directory has made are ' +
      'refused until their users sign in there again. 0: never.',
    { inForce: true },
  ],
}
