/** The settings of single sign-on and LDAP: which come first, and what the others belong to. */
import { SettingGroup } from '../api/schema.ts'
import type { Translation } from '../texts/texts.ts'

type Part = keyof Translation<'providers'>['signInSettings']['parts']
type Parts = Partial<Readonly<Record<Part, readonly string[]>>>

interface Layout {
  readonly basic: readonly string[]
  readonly required: readonly string[]
  readonly parts: Parts
}

export type SignInGroup = SettingGroup.singleSignOn | SettingGroup.ldap

/** The settings that are shown apart from the others. */
export const platformKey = 'sso_login_platform'
export const compatibilityKey = 'sso_compatibility_mode'
export const permissionKeys: readonly string[] = ['sso_default_permission', 'ldap_default_permission']
export const secretKeys: readonly string[] = ['sso_client_secret', 'ldap_manager_password']
export const endpointKey = 'sso_endpoint_name'

const ssoParts: Parts = {
  accounts: [
    'sso_default_dir',
    'sso_default_permission',
    'sso_link_by_email',
    'sso_oidc_username_key',
    'sso_recheck_days',
  ],
  groups: [
    'sso_scopes_groups_claim',
    'sso_extra_scopes',
    'sso_required_groups',
    'sso_admin_groups',
    'sso_group_map',
    'sso_update_on_login',
  ],
  page: ['sso_login_text', 'sso_only', 'sso_logout_provider', compatibilityKey],
}

const ldap: Layout = {
  basic: ['ldap_login_enabled', 'ldap_server', 'ldap_manager_dn', 'ldap_manager_password', 'ldap_user_search_base'],
  required: ['ldap_server', 'ldap_user_search_base'],
  parts: {
    connection: ['ldap_start_tls', 'ldap_ca_file', 'ldap_skip_tls_verify'],
    people: ['ldap_user_search_filter', 'ldap_username_attribute'],
    accounts: ['ldap_default_dir', 'ldap_default_permission'],
    groups: [
      'ldap_group_search_base',
      'ldap_nested_groups',
      'ldap_group_map',
      'ldap_required_group_dn',
      'ldap_admin_group_dn',
    ],
  },
}

/** `platform`: the provider of single sign-on. */
export function layoutOf(group: SignInGroup, platform: string): Layout {
  if (group === SettingGroup.ldap) return ldap
  const credentials = ['sso_client_id', 'sso_client_secret']
  const [first, last] = ['sso_login_enabled', 'sso_auto_register']
  switch (platform) {
    // Its address is known.
    case 'Google':
      return { basic: [first, ...credentials, last], required: credentials.slice(0, 1), parts: ssoParts }
    case 'Github':
      return {
        basic: [first, ...credentials, last],
        required: credentials.slice(0, 1),
        parts: { connection: [endpointKey], ...ssoParts },
      }
    default:
      return {
        basic: [first, endpointKey, ...credentials, last],
        required: [endpointKey, ...credentials.slice(0, 1)],
        parts: ssoParts,
      }
  }
}
