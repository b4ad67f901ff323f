/** A gateway whose single sign-on leads to a provider of a test. */
import type { Test } from 'tap'
import type { Person } from '../servers/openid-provider.js'
import { clientId, clientSecret } from '../servers/openid-provider.js'
import { serve, type Served } from '../protocols/http/served.js'

/** Sets the settings of single sign-on. `sso_login_platform` is OIDC unless `settings` say otherwise. */
export async function useProvider(
  { gateway }: Pick<Served, 'gateway'>,
  issuer: string,
  settings: Readonly<Record<string, string>> = {},
): Promise<void> {
  const values = {
    egress_networks: '127.0.0.0/8',
    sso_login_enabled: 'true',
    sso_login_platform: 'OIDC',
    sso_endpoint_name: issuer,
    sso_client_id: clientId,
    sso_client_secret: clientSecret,
    ...settings,
  }
  await gateway.settings.set(new Map(Object.entries(values)))
}

export const serveSite = (t: Test): Promise<Served> => serve(t)

export const ada: Person = {
  sub: 'ada-1',
  claims: { name: 'Ada Lovelace', preferred_username: 'ada', email: 'ada@example.org', email_verified: true },
}
