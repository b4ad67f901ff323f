/** The provider `oidc-provider`, a certified server of OpenID Connect, in the process of the test. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { exportJWK, generateKeyPair } from 'jose'
import { Provider } from 'oidc-provider'
import type { Test } from 'tap'

export const clientId = 'tidegate'
export const clientSecret = 'a secret of at least some length'

/** Who signs in there, and with what. */
export interface Person {
  readonly sub: string
  readonly claims?: Readonly<Record<string, unknown>>
  /** The methods by which the person signs in (RFC 8176). */
  readonly amr?: readonly string[]
  /** When the person has signed in, in seconds since 1970. Default: now. */
  readonly at?: number
}

export interface OpenIdProvider {
  readonly issuer: string
  /** Signs in whoever is asked to. Undefined: nobody, and the person cancels. */
  person: Person | undefined
  /** Requests by path, such as `/token`. */
  readonly requests: string[]
  /** Ends the sessions of all browsers there, as an admin does: the client is told by a logout token. */
  close(): void
}

/** `site`: the address of the client, without a slash at the end. */
export async function startOpenIdProvider(t: Pick<Test, 'teardown'>, site: string): Promise<OpenIdProvider> {
  const { privateKey } = await generateKeyPair('RS256', { extractable: true })
  const key = { ...(await exportJWK(privateKey)), alg: 'RS256', use: 'sig', kid: 'one' }
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const callbacks = ['sso_callback', 'sso_get_token', 'get_sso_id'].map((name) => `${site}/api/auth/${name}`)
  const people = new Map<string, Person>()
  const provider = new Provider(issuer, {
    clients: [
      {
        client_id: clientId,
        client_secret: clientSecret,
        redirect_uris: callbacks,
        post_logout_redirect_uris: [`${site}/@login`],
        backchannel_logout_uri: `${site}/api/auth/sso_backchannel_logout`,
        backchannel_logout_session_required: true,
        token_endpoint_auth_method: 'client_secret_post',
      },
    ],
    jwks: { keys: [key] },
    cookies: { keys: ['a key of cookies'] },
    claims: {
      ...{ amr: null, acr: null, auth_time: null, sid: null, iss: null },
      ...{ openid: ['sub', 'amr'], email: ['email', 'email_verified'], groups: ['groups'] },
      profile: ['name', 'preferred_username'],
    },
    scopes: ['openid', 'profile', 'email', 'groups'],
    features: {
      devInteractions: { enabled: false },
      backchannelLogout: { enabled: true },
      rpInitiatedLogout: { enabled: true },
    },
    interactions: { url: (_, { uid }) => `/interaction/${uid}` },
    findAccount: (_, sub) => ({
      accountId: sub,
      claims: () => ({ sub, ...people.get(sub)?.claims, amr: people.get(sub)?.amr }),
    }),
    // Its own refuses addresses of this machine.
    fetch: (url, options) => {
      const { dispatcher: _, ...others } = { dispatcher: undefined, ...options }
      return fetch(url, others)
    },
    renderError: (context, out) => {
      context.body = out
    },
  })
  const control: OpenIdProvider = {
    issuer,
    person: undefined,
    requests: [],
    close: () => {
      server.closeAllConnections()
      server.close()
    },
  }
  t.teardown(() => control.close())
  const callback = provider.callback()
  server.on('request', (request, response) => {
    const { pathname } = new URL(request.url ?? '', issuer)
    control.requests.push(pathname)
    if (!pathname.startsWith('/interaction/')) {
      void callback(request, response)
      return
    }
    void (async () => {
      const { prompt, params } = await provider.interactionDetails(request, response)
      const { person } = control
      if (person === undefined) {
        await provider.interactionFinished(request, response, { error: 'access_denied' })
      } else if (prompt.name === 'login') {
        people.set(person.sub, person)
        const { sub: accountId, at, amr } = person
        const login = { accountId, ...(at !== undefined && { ts: at }), ...(amr && { amr: [...amr] }) }
        await provider.interactionFinished(request, response, { login })
      } else {
        const grant = new provider.Grant({ accountId: person.sub, clientId })
        grant.addOIDCScope(String(params.scope))
        await provider.interactionFinished(request, response, { consent: { grantId: await grant.save() } })
      }
    })()
  })
  return control
}
