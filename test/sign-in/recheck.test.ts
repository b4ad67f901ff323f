/** What an account that a provider has made loses over WebDAV while its user has not signed in there. */
import t from 'tap'
import { allPermissions } from '../../src/accounts/principal.js'
import { startGateway } from '../gateway.js'

void t.test('an app password opens WebDAV only while the provider has confirmed the account', async (t) => {
  const { gateway, davUrl } = await startGateway(t)
  const { users, identities, appPasswords } = gateway.accounts
  const shown = { kind: 'oidc', issuer: 'https://idp.test', subject: '1', name: 'Ada' } as const
  const ada = await users.create({
    ...{ username: 'ada', basePath: '/', role: 'general', permission: allPermissions, disabled: false, ssoId: '1' },
    identity: identities.newRow(shown, true),
  })
  const app = { name: 'phone', protocols: ['webdav'], readOnly: false }
  const { password } = await appPasswords.add(ada.id, app)
  const authorization = `Basic ${Buffer.from(`ada:${password}`).toString('base64')}`
  const list = async () => (await fetch(davUrl, { method: 'PROPFIND', headers: { authorization, depth: '0' } })).status
  const [identity] = identities.of(ada.id)
  if (identity === undefined) throw new Error('it was not linked')
  t.equal(await list(), 207)
  await identities.lookedUp(identity, false)
  t.equal(await list(), 403)
  await identities.signedIn(identity)
  t.equal(await list(), 207)
})
