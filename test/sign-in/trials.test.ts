/** Trials of settings of single sign-on and LDAP, over the API: what they find, and that nothing is stored. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { lacks } from '../programs.js'
import { serve, type Served } from '../protocols/http/served.js'
import { clientId, clientSecret, startOpenIdProvider } from '../servers/openid-provider.js'
import { reader, slapdPrograms, startSlapd, suffix } from '../servers/slapd.js'

type Values = Readonly<Record<string, string>>

interface Trial {
  readonly outcome: string
  readonly reason: string
  readonly person?: unknown
}

const rowsOf = (values: Values) => Object.entries(values).map(([key, value]) => ({ key, value }))

/** Tries settings, and checks that no stored value has changed. */
function trying(t: Test, served: Served, path: 'try_sso' | 'try_ldap') {
  return async (values: Values, more: object = {}): Promise<Trial> => {
    const before = JSON.stringify(served.gateway.settings.rows())
    const { code, message, data } = await served.post(`/api/admin/setting/${path}`, {
      settings: rowsOf(values),
      ...more,
    })
    t.equal(JSON.stringify(served.gateway.settings.rows()), before, 'nothing is stored')
    if (code !== 200) throw new Error(message)
    return data as Trial
  }
}

/** A server that answers every request with this JSON. Resolves to its address. */
async function answering(t: Test, status: number, body: (issuer: string, path: string) => object): Promise<string> {
  const server = createServer((request, response) => {
    response.writeHead(status, { 'content-type': 'application/json' })
    response.end(JSON.stringify(body(issuer, request.url ?? '')))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  t.teardown(() => server.close())
  return issuer
}

void t.test('a trial of single sign-on', async (t) => {
  const served = await serve(t)
  const { gateway } = served
  const provider = await startOpenIdProvider(t, served.url)
  const ask = trying(t, served, 'try_sso')
  const right = {
    sso_login_platform: 'OIDC',
    sso_endpoint_name: provider.issuer,
    sso_client_id: clientId,
    sso_client_secret: clientSecret,
  }
  t.match(await ask(right), { outcome: 'network_refused', reason: /network that is not allowed/ })
  await gateway.settings.set(new Map([['egress_networks', '127.0.0.0/8']]))
  t.strictSame(await ask(right), { outcome: 'works', reason: '' }, 'while single sign-on is off')
  t.strictSame(provider.requests.slice(-1), ['/token'], 'the provider was asked for a token')
  t.strictSame(await ask({ ...right, sso_client_secret: 'another secret of some length' }), {
    outcome: 'account_refused',
    reason: '',
  })
  t.match(await ask({ ...right, sso_client_id: 'nobody' }), { outcome: 'account_refused' })
  t.match(await ask({ ...right, sso_client_id: '' }), { outcome: 'incomplete', reason: 'sso_client_id is empty' })
  t.match(await ask({ ...right, sso_endpoint_name: 'ftp://x' }), { outcome: 'incomplete', reason: /https address/ })
  t.match(await ask({ ...right, sso_endpoint_name: 'http://127.0.0.1:1' }), { outcome: 'unreachable' })
  t.match(await ask({ ...right, sso_endpoint_name: `${provider.issuer}/elsewhere` }), { outcome: 'other_answer' })

  await gateway.settings.set(new Map([['sso_client_secret', clientSecret]]))
  t.match(await ask({ ...right, sso_client_secret: '' }), { outcome: 'works' }, 'an empty secret is the stored one')

  const basic = await answering(t, 200, (issuer) => ({
    issuer,
    authorization_endpoint: `${issuer}/authorize`,
    token_endpoint: `${issuer}/token`,
    jwks_uri: `${issuer}/keys`,
    error: 'slow_down',
  }))
  t.match(await ask({ ...right, sso_endpoint_name: basic }), { outcome: 'unconfirmed' }, 'an answer about neither')
  // GitHub answers so, by its documentation.
  for (const [error, outcome] of [
    ['incorrect_client_credentials', 'account_refused'],
    ['bad_verification_code', 'works'],
  ] as const) {
    const hub = await answering(t, 200, () => ({ error }))
    t.match(await ask({ ...right, sso_login_platform: 'Github', sso_endpoint_name: hub }), { outcome }, error)
  }

  const refused = await served.post('/api/admin/setting/try_sso', { settings: [{ key: 'no_such', value: 'x' }] })
  t.match(refused, { code: 500, message: /no such setting/ })
})

void t.test('a trial of LDAP', { skip: lacks(...slapdPrograms) }, async (t) => {
  const served = await serve(t)
  const { gateway } = served
  const slapd = await startSlapd()
  t.teardown(() => slapd.stop())
  await slapd.addPerson('ada', 'the password of ada')
  await slapd.addGroup('staff', ['ada'])
  const ask = trying(t, served, 'try_ldap')
  const right = {
    ldap_server: `ldap://127.0.0.1:${slapd.port}`,
    ldap_manager_dn: reader.dn,
    ldap_manager_password: reader.password,
    ldap_user_search_base: `ou=people,${suffix}`,
  }
  t.match(await ask(right), { outcome: 'network_refused' })
  await gateway.settings.set(new Map([['egress_networks', '127.0.0.0/8']]))
  t.strictSame(await ask(right), { outcome: 'works', reason: '' }, 'while LDAP is off')
  const person = { name: 'ada', groups: [`cn=staff,ou=groups,${suffix}`] }
  t.strictSame(await ask(right, { name: 'ada' }), { outcome: 'works', reason: '', person })
  t.match(await ask(right, { name: 'nobody' }), { outcome: 'nobody_found' })
  t.match(await ask({ ...right, ldap_user_search_filter: '(mail=%s)' }), { outcome: 'nobody_found' })
  t.match(await ask({ ...right, ldap_user_search_filter: '((%s' }), { outcome: 'incomplete', reason: /filter/ })
  t.match(await ask({ ...right, ldap_manager_password: 'wrong' }), { outcome: 'account_refused', reason: /0x31/ })
  t.match(await ask({ ...right, ldap_user_search_base: `ou=none,${suffix}` }), { outcome: 'base_missing' })
  t.match(await ask({ ...right, ldap_server: '' }), { outcome: 'incomplete' })
  t.match(await ask({ ...right, ldap_server: 'ldap://127.0.0.1:1' }), { outcome: 'unreachable' })
  const tls = { ...right, ldap_server: `ldaps://localhost:${slapd.tlsPort}` }
  t.match(await ask(tls), { outcome: 'certificate' })
  t.match(await ask({ ...tls, ldap_ca_file: slapd.certificate }), { outcome: 'works' })

  await gateway.settings.set(new Map(Object.entries(right)))
  t.match(await ask({}), { outcome: 'works' }, 'what is not given is what is stored')
  t.match(await ask({ ldap_manager_password: '' }), { outcome: 'works' }, 'and an empty secret too')
})
