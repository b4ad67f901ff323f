/** The settings of LDAP: first those that clients of the API know. */
import { GatewayError } from '../base/errors.js'
import type { SettingRows } from './settings-table.js'
import { groupMap } from './sign-in-settings.js'

export const ldapSettings = (checkFile: (value: string) => void): SettingRows => ({
  ldap_login_enabled: ['bool', 'false', 'public', 'Users of the directory can sign in with their passwords there.'],
  ldap_server: ['string', '', 'private', 'URL of the server: ldap:// or ldaps://.', { check: checkServer }],
  ldap_skip_tls_verify: ['bool', 'false', 'private', 'The certificate of the server is not verified.'],
  ldap_manager_dn: ['string', '', 'private', 'DN of the account that searches for users. Empty: anonymous.'],
  ldap_manager_password: ['string', '', 'private', 'Password of that account.', { secret: true }],
  ldap_user_search_base: ['string', '', 'private', 'Base DN of the search for users.'],
  ldap_user_search_filter: [
    'string',
    '(uid=%s)',
    'private',
    'Filter of the search for a user; %s is replaced with the user name.',
    { check: checkFilter },
  ],
  ldap_default_dir: [
    'string',
    '/',
    'private',
    'Base folder of accounts that are created at the first sign-in; {username} is replaced with the user name.',
  ],
  ldap_default_permission: ['number', '0', 'private', 'Permissions of these accounts, as the sum of their bits.'],
  ldap_login_tips: ['string', 'login with ldap', 'public', 'Text shown with the LDAP sign-in.', { inForce: false }],
  ldap_start_tls: ['bool', 'false', 'private', 'Connections of ldap:// are encrypted with StartTLS.'],
  ldap_ca_file: [
    'string',
    '',
    'private',
    'Absolute path of a PEM file with the authorities of the certificate of the server. Empty: those of Node.js.',
    { check: checkFile },
  ],
  ldap_username_attribute: [
    'string',
    'uid',
    'private',
    'Attribute with the name of a new account. Without it, the name is as it was typed.',
  ],
  ldap_group_search_base: [
    'string',
    '',
    'private',
    'Base DN of the search for the groups of a user. Empty: the groups are those of the attribute memberOf.',
  ],
  ldap_nested_groups: [
    'bool',
    'false',
    'private',
    'Groups within groups count, by a search that Active Directory understands.',
  ],
  ldap_group_map: [
    'text',
    '',
    'private',
    'JSON object: DNs of groups of the directory, and the names of the groups here whose members theirs become.',
    { check: (value) => void groupMap(value) },
  ],
  ldap_required_group_dn: ['string', '', 'private', 'DN of the group whose members can sign in. Empty: everybody.'],
  ldap_admin_group_dn: ['string', '', 'private', 'DN of the group whose members are admins. Empty: nobody.'],
})

function checkServer(value: string): void {
  if (value === '' || /^ldaps?:\/\/[^\s/@?#]+\/?$/.test(value)) return
  throw new GatewayError('invalid', { reason: 'must be ldap://HOST or ldaps://HOST, with :PORT if it is another one' })
}

function checkFilter(value: string): void {
  if (value === '' || value.includes('%s')) return
  throw new GatewayError('invalid', { reason: 'must hold %s, which is replaced with the user name' })
}
