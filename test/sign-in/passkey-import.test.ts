/** Passkeys and identities that are imported from AList and OpenList. */
import t from 'tap'
import type { AlistDatabase } from '../../src/database/alist-database.js'
import type { ForeignRow } from '../../src/database/foreign-sqlite.js'
import { fromAlist } from '../../src/installation/import/alist.js'
import { Report } from '../../src/installation/import/report.js'
import { coreSettings } from '../../src/settings/settings-table.js'
import '../fast-hashes.js'
import { openNewStore } from '../database/new-store.js'
import { Served, serve } from '../protocols/http/served.js'
import { Authenticator, type RequestOptions } from './authenticator.js'

const site = 'https://files.example.test'

const admin = {
  id: 1,
  username: 'root',
  pwd_hash: '0'.repeat(64),
  salt: 's',
  base_path: '/',
  role: 2,
  permission: 0,
  disabled: 0,
}

/** An authenticator with a passkey of another server for this site, whose handle is the id that a user had there. */
function authenticatorOf(oldId: number): Authenticator {
  const handle = Buffer.alloc(8)
  handle.writeUInt32LE(oldId)
  const authenticator = new Authenticator(site)
  authenticator.create({
    rp: { id: 'files.example.test' },
    user: { id: handle.toString('base64url') },
    challenge: 'AAAA',
  })
  return authenticator
}

/** The credential as those programs store it. */
function stored(authenticator: Authenticator, fields: object = {}) {
  return {
    id: Buffer.from(authenticator.ids[0] ?? '', 'base64url').toString('base64'),
    publicKey: authenticator.keys[0]?.toString('base64'),
    attestationType: 'none',
    transport: ['internal', 'a b'],
    flags: { userPresent: true, userVerified: true, backupEligible: true, backupState: false },
    authenticator: { AAGUID: Buffer.from('00112233445566778899aabbccddeeff', 'hex').toString('base64'), signCount: 3 },
    ...fields,
  }
}

async function imported(users: readonly ForeignRow[]) {
  const none = { roles: [], storages: [], meta: [], ssh_public_keys: [], setting_items: [], sharing_dbs: [] }
  const database: AlistDatabase = { hasRoles: false, rows: { ...none, users: [admin, ...users] } }
  const report = new Report()
  const installation = await fromAlist('openlist', database, { driverTypes: [], settings: coreSettings }, report)
  const linesOf = (kind: string) => report.lines.filter((line) => line.kind.startsWith(kind))
  return { installation, lines: linesOf('passkey'), linesOf }
}

void t.test('passkeys are taken, and those that are damaged are left out one by one', async (t) => {
  const [one, old, copied] = [authenticatorOf(7), authenticatorOf(7), authenticatorOf(8)]
  const { flags: _, ...withoutFlags } = stored(old, { transport: null, authenticator: { AAGUID: '', signCount: 0 } })
  const ann = [
    stored(one),
    withoutFlags,
    stored(copied, { id: '' }),
    stored(copied, { publicKey: 'AAAA' }),
    stored(copied, { id: stored(one).id }),
    stored(copied, { authenticator: { signCount: -1 } }),
    'text',
  ]
  const { installation, lines } = await imported([
    { ...admin, id: 7, username: 'ann', role: 0, authn: JSON.stringify(ann) },
    { ...admin, id: 8, username: 'bob', role: 0, authn: JSON.stringify([stored(one)]) },
    { ...admin, id: 9, username: 'carl', role: 0, authn: 'no JSON' },
    { ...admin, id: 10, username: 'guest', role: 1, authn: JSON.stringify([stored(copied)]) },
    { ...admin, id: 11, username: 'none', role: 0, authn: '[]' },
  ])
  t.match(
    installation.users.map(({ username, passkeys = [] }) => ({ username, passkeys })),
    [
      { username: 'root', passkeys: [] },
      {
        username: 'ann',
        passkeys: [
          {
            credentialId: one.ids[0],
            publicKey: one.keys[0],
            counter: 3,
            backupEligible: true,
            transports: ['internal'],
            aaguid: '00112233-4455-6677-8899-aabbccddeeff',
            name: 'Passkey 1',
          },
          { credentialId: old.ids[0], counter: 0, backupEligible: false, transports: [], name: 'Passkey 2' },
        ],
      },
      { username: 'bob', passkeys: [] },
      { username: 'carl', passkeys: [] },
      { username: 'guest', passkeys: [] },
      { username: 'none', passkeys: [] },
    ],
  )
  t.strictSame(
    lines.map(({ name, outcome }) => `${name} ${outcome}`),
    [
      ...['ann: Passkey 1 taken', 'ann: Passkey 2 taken'],
      ...[3, 4, 5, 6, 7].map((number) => `ann: Passkey ${number} left out`),
      ...['bob: Passkey 1 left out', 'carl left out'],
    ],
  )
  t.equal(installation.users[1]?.passkeys?.length, 2)

  const store = await openNewStore(t.testdir() + '/tidegate.db')
  t.teardown(() => store.close())
  await store.installation.replace(installation, () => true)
  const user = (await store.users.all()).find(({ username }) => username === 'ann')
  t.match(await store.passkeys.of(user?.id ?? 0), [{ credentialId: one.ids[0] }, { credentialId: old.ids[0] }])
  await t.rejects(
    store.installation.assertNew(() => true),
    { code: 'exists' },
  )
})

void t.test('an imported passkey signs in, although its handle is that of another id', async (t) => {
  const gateway = await serve(t, site)
  await gateway.gateway.settings.set(new Map([['webauthn_login_enabled', 'true']]))
  await gateway.as('ann', [])
  const userId = gateway.gateway.accounts.users.byName('ann')!.id
  const authenticator = authenticatorOf(userId + 1000)
  const row = { ...admin, id: 7, username: 'ann', role: 0, authn: JSON.stringify([stored(authenticator)]) }
  const { installation } = await imported([row])
  const [passkey] = installation.users[1]?.passkeys ?? []
  if (passkey === undefined) throw new Error('it was not taken')
  await gateway.gateway.store.passkeys.insert({ ...passkey, userId })
  const nobody = new Served(gateway.url, gateway.gateway)
  const { options, session } = (await nobody.get('/api/authn/webauthn_begin_login')).data as {
    readonly options: { readonly publicKey: RequestOptions }
    readonly session: string
  }
  const answer = authenticator.get(options.publicKey, { counter: 4 })
  t.match(await nobody.post('/api/authn/webauthn_finish_login', answer, { session }), { code: 200 })
})

void t.test('an id of single sign-on, which users of those programs write themselves, is in the report', async (t) => {
  const { installation, linesOf } = await imported([
    { ...admin, id: 7, username: 'eve', role: 0, sso_id: '583231' },
    { ...admin, id: 8, username: 'bob', role: 0, sso_id: '' },
  ])
  t.match(installation.users, [{}, { username: 'eve', ssoId: '583231' }, { username: 'bob', ssoId: '' }])
  t.match(linesOf('sso_id'), [{ name: 'eve', outcome: 'changed', reason: /whoever signs in by this identity/ }])
  t.equal(linesOf('sso_id').length, 1)
})
