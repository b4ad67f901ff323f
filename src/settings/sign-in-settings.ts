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

/** The setting is stored for clients that read it, or for those of earlier versions of the API. */
const notRead = { inForce: false }

export const singleSignOnSettings: SettingRows = {
  sso_login_enabled: ['bool', 'false', 'public', 'Users can sign in at the provider, and clients offer it.'],
  sso_login_platform: [
    'select',
    '',
    'public',
    'The identity provider.',
    { options: ['Casdoor', 'Github', 'Microsoft', 'Google', 'Dingtalk', 'OIDC'] },
  ],
  sso_client_id: ['string', '', 'private', 'Client id of this site at the provider.'],
  sso_client_secret: ['string', '', 'private', 'Client secret of this site at the provider.', { secret: true }],
  sso_oidc_username_key: [
    'string',
    'name',
    'private',
    'Claim that has the name of a new account. By default: preferred_username, the part of email before the @, or name.',
  ],
  sso_organization_name: ['string', '', 'private', 'Organization, for Casdoor.', notRead],
  sso_application_name: ['string', '', 'private', 'Application, for Casdoor.', notRead],
  sso_endpoint_name: [
    'string',
    '',
    'private',
    'Issuer of OIDC and Casdoor; id of the tenant at Microsoft; address of GitHub Enterprise Server.',
  ],
  sso_jwt_public_key: ['string', '', 'private', 'Public key for the tokens of the provider, for Casdoor.', notRead],
  sso_extra_scopes: ['string', '', 'private', 'Additional scopes to request, separated by spaces.'],
  sso_auto_register: ['bool', 'false', 'private', 'An account is created at the first sign-in.'],
  sso_default_dir: [
    'string',
    '/',
    'private',
    'Base folder of created accounts. {username} and {sub} are replaced by their name and id at the provider.',
  ],
  sso_default_permission: ['number', '0', 'private', 'Permissions of created accounts, as the sum of their bits.'],
  sso_compatibility_mode: ['bool', 'false', 'public', 'Sign-in uses a redirect instead of a window.'],
  sso_scopes_groups_claim: ['string', 'groups', 'private', 'Claim that has the groups. Dots lead into objects.'],
  sso_required_groups: ['text', '', 'private', 'Groups at the provider of which a user must be in one. Empty: none.'],
  sso_admin_groups: ['text', '', 'private', 'Groups at the provider whose members are admins.'],
  sso_group_map: [
    'text',
    '',
    'private',
    'JSON object: groups at the provider, and the names of the groups here whose members they are.',
    { check: (value) => void groupMap(value) },
  ],
  sso_update_on_login: ['bool', 'true', 'private', 'Groups follow the provider at every sign-in.'],
  sso_link_by_email: [
    'bool',
    'false',
    'private',
    'A user whose name is the verified e-mail address of an identity gets it at its first sign-in.',
  ],
  sso_logout_provider: ['bool', 'false', 'public', 'Signing out of the console also ends the session at the provider.'],
  sso_login_text: ['string', '', 'public', 'Text of the button on the sign-in page of the console.'],
  sso_only: [
    'bool',
    'false',
    'public',
    'The sign-in page of the console shows no fields for a password, except at /@login?local.',
  ],
  sso_recheck_days: [
    'number',
    '7',
    'private',
    'Days after which the app passwords, SSH keys and passwords of accounts that a provider or directory has made are ' +
      'refused until their users sign in there again. 0: never.',
  ],
}
