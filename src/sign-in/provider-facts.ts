/** The provider of single sign-on, as the settings describe it. */
import { isIP } from 'node:net'
import { GatewayError } from '../base/errors.js'
import { parseNetworks } from '../net/addresses.js'
import { isAllowedAddress } from '../net/egress.js'
import { parseUrl } from '../net/web-address.js'
import type { Settings } from '../settings/settings.js'

export type SsoSettings = Pick<Settings, 'bool' | 'get' | 'number'>

export interface ProviderFacts {
  /** `oidc`: OpenID Connect by discovery. `oauth`: GitHub, which has OAuth 2.0 only. */
  readonly kind: 'oidc' | 'oauth'
  /** The issuer, or the address of GitHub. */
  readonly issuer: string
  readonly clientId: string
  readonly clientSecret: string
  readonly scopes: readonly string[]
  /** The claim that has the groups; dots lead into objects. */
  readonly groupsClaim: string
  /** The claim that `sso_id` of accounts held in earlier versions. */
  readonly formerIdClaim: string
}

const google = 'https://accounts.google.com'
const microsoft = 'https://login.microsoftonline.com'
const gitHub = 'https://github.com'

/**
 * Returns the facts of the provider by the present settings. Throws `denied` with the detail `provider_off`, and
 * `invalid` with a reason for a platform that cannot be used.
 */
export function providerFacts(settings: SsoSettings): ProviderFacts {
  if (!settings.bool('sso_login_enabled')) throw new GatewayError('denied', { detail: 'provider_off' })
  const platform = settings.get('sso_login_platform')
  const common = {
    clientId: settings.get('sso_client_id'),
    clientSecret: settings.get('sso_client_secret'),
    groupsClaim: settings.get('sso_scopes_groups_claim'),
    scopes: ['openid', 'profile', 'email', ...settings.get('sso_extra_scopes').split(/\s+/).filter(Boolean)],
  }
  if (common.clientId === '') throw unusable('sso_client_id is empty')
  const endpoint = settings
    .get('sso_endpoint_name')
    .trim()
    .replace(/\/\.well-known\/openid-configuration$/, '')
  switch (platform) {
    case 'Github':
      return {
        ...common,
        kind: 'oauth',
        issuer: issuerOf(endpoint || gitHub),
        scopes: ['read:user'],
        formerIdClaim: 'id',
      }
    case 'Google':
      return { ...common, kind: 'oidc', issuer: google, formerIdClaim: 'sub' }
    case 'Microsoft':
      return { ...common, kind: 'oidc', issuer: tenantIssuer(endpoint), formerIdClaim: 'oid' }
    case 'Casdoor':
      return { ...common, kind: 'oidc', issuer: issuerOf(endpoint), formerIdClaim: 'sub' }
    case 'OIDC':
      return {
        ...common,
        kind: 'oidc',
        issuer: issuerOf(endpoint),
        formerIdClaim: settings.get('sso_oidc_username_key'),
      }
    case '':
      throw unusable('invalid platform')
    default:
      throw unusable(`${platform} is not supported: it has no OpenID Connect, whose answers can be verified`)
  }
}

/** Microsoft's accounts of one organization: tokens of `common` name issuers that cannot be known before. */
function tenantIssuer(endpoint: string): string {
  const tenant = /^[\w.-]+$/.test(endpoint) ? endpoint : undefined
  const issuer = tenant === undefined ? issuerOf(endpoint) : `${microsoft}/${tenant}/v2.0`
  if (/\/(?:common|organizations|consumers)(?:\/|$)/.test(issuer)) {
    throw unusable(
      'sso_endpoint_name must be the id of your tenant: common, organizations and consumers have no issuer',
    )
  }
  return issuer
}

/** Throws `invalid` unless it is a URL of https, or of http to this machine or a private address. */
function issuerOf(text: string): string {
  const url = parseUrl(text)
  const host = url?.hostname.replace(/^\[(.*)\]$/, '$1') ?? ''
  const isPrivate = host === 'localhost' || (isIP(host) !== 0 && !isAllowedAddress(host, parseNetworks('')))
  const isHttp = url?.protocol === 'https:' || (url?.protocol === 'http:' && isPrivate)
  if (url === undefined || !isHttp || url.search !== '' || url.hash !== '' || url.username !== '') {
    throw unusable('sso_endpoint_name must be the https address of the provider')
  }
  return text
}

function unusable(reason: string): GatewayError {
  return new GatewayError('invalid', { op: 'sign in', detail: 'provider_settings', reason })
}
