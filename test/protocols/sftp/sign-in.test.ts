/** SFTP sign-in by key, by password and as guest, and the limits of connections, channels and handles. */
import { createHash, generateKeyPairSync, randomBytes, sign } from 'node:crypto'
import { once } from 'node:events'
import { connect as connectSocket } from 'node:net'
import ssh2, { type AuthContext, type ConnectConfig, type ParsedKey, type PublicKeyAuthMethod } from 'ssh2'
import t, { type Test } from 'tap'
import { signIn, hasValidSignature, type KeyRequest } from '../../../protocols/sftp/sign-in.js'
import { permissionBits } from '../../../src/accounts/principal.js'
import { generateKeyPair } from '../../../protocols/sftp/host-keys.js'
import { flags, PacketClient, status, string, uint32 } from './packet-client.js'
import { openChannel, password, startProtocol } from './server-fixture.js'

type Protocol = Awaited<ReturnType<typeof startProtocol>>

async function ada({ gateway }: Protocol) {
  const user = gateway.accounts.users.byName('ada')
  if (!user) throw new Error('ada is missing')
  return user
}

async function addKey(protocol: Protocol, title: string, pair: { readonly public: string }) {
  return protocol.gateway.accounts.keys.add((await ada(protocol)).id, title, pair.public)
}

const refused = (t: Test, protocol: Protocol, options: ConnectConfig) =>
  t.rejects(protocol.connect(options), { message: /authentication methods failed/ })

void t.test('keys of every plain type sign in with a valid signature', async (t) => {
  const protocol = await startProtocol(t)
  for (const [type, bits] of [
    ['ed25519', undefined],
    ['ecdsa', 256],
    ['ecdsa', 384],
    ['ecdsa', 521],
    ['rsa', 2048],
  ] as const) {
    const pair =
      type === 'ed25519'
        ? await generateKeyPair(type, { comment: 'test' })
        : ssh2.utils.generateKeyPairSync(type as 'rsa', { bits })
    const key = await addKey(protocol, `${type} ${bits}`, pair)
    const before = key.lastUsed.getTime()
    const client = await protocol.connect({ username: 'ada', password: '', privateKey: pair.private })
    await openChannel(client)
    const used = protocol.gateway.accounts.keys.list(key.userId).find(({ id }) => id === key.id)
    t.ok((used?.lastUsed.getTime() ?? 0) >= before, `${type} ${bits}`)
    client.end()
  }
})

void t.test('a key of another user and an unknown key are rejected', async (t) => {
  const protocol = await startProtocol(t)
  const pair = await generateKeyPair('ed25519', { comment: 'test' })
  await refused(t, protocol, { username: 'ada', password: '', privateKey: pair.private })
  await addKey(protocol, 'mine', pair)
  await refused(t, protocol, { username: 'admin', password: '', privateKey: pair.private })
})

void t.test('a key query is not recorded as a sign-in, and a wrong signature is rejected', async (t) => {
  const protocol = await startProtocol(t)
  const pair = await generateKeyPair('ed25519', { comment: 'test' })
  const key = await addKey(protocol, 'asked', pair)
  const other = ssh2.utils.parseKey((await generateKeyPair('ed25519', { comment: 'test' })).private) as ParsedKey
  const mine = ssh2.utils.parseKey(pair.private) as ParsedKey
  // Presents the known key and signs with another one.
  const liar = Object.assign(Object.create(mine) as ParsedKey, { sign: (data: Buffer) => other.sign(data) })
  const method: PublicKeyAuthMethod = { type: 'publickey', username: 'ada', key: liar }
  const times = () => protocol.gateway.accounts.keys.list(key.userId).map(({ lastUsed }) => lastUsed.getTime())
  const before = times()
  await refused(t, protocol, {
    username: 'ada',
    password: '',
    authHandler: [method],
  })
  t.same(times(), before)
})

void t.test('RSA signatures require SHA-2', async (t) => {
  const { publicKey, privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
  const { n, e } = publicKey.export({ format: 'jwk' }) as { n: string; e: string }
  const number = (text: string) => Buffer.concat([Buffer.from([0]), Buffer.from(text, 'base64url')])
  const data = Buffer.concat([string('ssh-rsa'), string(Buffer.from(e, 'base64url')), string(number(n))])
  const blob = randomBytes(100)
  const context = (hash: string, hashAlgo?: string): KeyRequest => ({
    key: { algo: 'ssh-rsa', data },
    blob,
    signature: sign(hash, blob, privateKey),
    ...(hashAlgo !== undefined && { hashAlgo }),
  })
  t.ok(hasValidSignature(context('sha256', 'sha256')))
  t.ok(hasValidSignature(context('sha512', 'sha512')))
  t.notOk(hasValidSignature(context('sha1')))
  t.notOk(hasValidSignature(context('sha1', 'sha256')))
})

void t.test('a security key signs in only after a touch', async (t) => {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519')
  const raw = Buffer.from((publicKey.export({ format: 'jwk' }) as { x: string }).x, 'base64url')
  const algo = 'sk-ssh-ed25519@openssh.com'
  const application = 'ssh:'
  const data = Buffer.concat([string(algo), string(raw), string(application)])
  const blob = randomBytes(100)
  const digest = (bytes: string | Buffer) => createHash('sha256').update(bytes).digest()
  const context = (touched: number): KeyRequest => {
    const touch = Buffer.concat([Buffer.from([touched]), uint32(7)])
    const signature = sign(null, Buffer.concat([digest(application), touch, digest(blob)]), privateKey)
    return { key: { algo, data }, blob, signature: Buffer.concat([signature, touch]) }
  }
  t.ok(hasValidSignature(context(1)))
  t.notOk(hasValidSignature(context(0)))
})

void t.test('passwords sign in unless the setting disables them', async (t) => {
  const protocol = await startProtocol(t)
  await openChannel(await protocol.connect())
  await refused(t, protocol, { password: 'wrong' })
  await protocol.gateway.settings.set(new Map([['sftp_disable_password_login', 'true']]))
  await refused(t, protocol, {})
})

void t.test('the guest, if enabled, needs no password', async (t) => {
  const protocol = await startProtocol(t)
  const asGuest = { username: 'guest', authHandler: [{ type: 'none' as const, username: 'guest' }] }
  await refused(t, protocol, asGuest)
  const guest = protocol.gateway.accounts.users.byName('guest')
  await protocol.gateway.accounts.users.update(guest?.id ?? 0, { disabled: false, permission: permissionBits.sftpRead })
  await openChannel(await protocol.connect(asGuest))
  await refused(t, protocol, { username: 'ada', authHandler: [{ type: 'none', username: 'ada' }] })
})

void t.test('a refused method and an account without the permission are details, which the log words', async (t) => {
  const { gateway } = await startProtocol(t)
  const context = { method: 'hostbased', username: 'ada' } as unknown as AuthContext
  await t.rejects(signIn(gateway, context, { address: '127.0.0.1' }), {
    code: 'unauthenticated',
    detail: 'method_refused',
    reason: 'this method, key or signature is not accepted',
  })
  const withPassword = { method: 'password', username: 'ada', password } as unknown as AuthContext
  await gateway.accounts.users.update(gateway.accounts.users.byName('ada')?.id ?? 0, { permission: 0 })
  await t.rejects(signIn(gateway, withPassword, { address: '127.0.0.1' }), {
    code: 'denied',
    detail: 'protocol_denied',
  })
})

void t.test('a user name or a password with bytes that are not UTF-8 is refused and not compared', async (t) => {
  // ssh2 puts U+FFFD in the place of such bytes, so that they would be equal.
  const asked: string[] = []
  const byPassword = async ({ username, password: { plain } }: { username: string; password: { plain?: string } }) => {
    asked.push(username, String(plain))
    throw new Error('was compared')
  }
  const dependencies = {
    settings: { bool: () => false, get: () => '' },
    accounts: {
      signIn: { byPassword },
      principals: { guest: () => ({ username: 'caf\ufffd', mayUseProtocol: true }) },
    },
  } as unknown as Parameters<typeof signIn>[0]
  const prompts = { once: () => undefined, prompt: (_: unknown, answer: (all: string[]) => void) => answer(['\ufffd']) }
  for (const context of [
    { method: 'password', username: 'ada', password: 'caf\ufffd' },
    { method: 'password', username: 'caf\ufffd', password },
    { method: 'none', username: 'caf\ufffd' },
    { method: 'keyboard-interactive', username: 'ada', ...prompts },
  ]) {
    const reason = 'names and passwords must be UTF-8'
    await t.rejects(signIn(dependencies, context as unknown as AuthContext, { address: '127.0.0.1' }), {
      code: 'unauthenticated',
      reason,
    })
  }
  t.same(asked, [])
})

void t.test('of a known key, only who signs with it is told that its account cannot be used', async (t) => {
  const protocol = await startProtocol(t)
  const { accounts } = protocol.gateway
  const pair = await generateKeyPair('ed25519', { comment: 'test' })
  const key = await addKey(protocol, 'known', pair)
  const mine = ssh2.utils.parseKey(pair.private) as ParsedKey
  const query = { method: 'publickey', username: 'ada', key: { algo: 'ssh-ed25519', data: mine.getPublicSSH() } }
  const blob = Buffer.from('what is signed')
  const signed = { ...query, blob, signature: mine.sign(blob) }
  const client = { address: '127.0.0.1' }
  const usable = { disabled: false, expires: null, allowFrom: [] }
  for (const [changes, detail] of [
    [{}, undefined],
    [{ disabled: true }, 'account_disabled'],
    [{ expires: new Date(0) }, 'account_expired'],
    [{ allowFrom: ['192.0.2.1'] }, 'network_refused'],
  ] as const) {
    await accounts.users.update(key.userId, { ...usable, ...changes })
    t.equal(await signIn(protocol.gateway, query as unknown as AuthContext, client), 'offered', `${detail}`)
    const signing = signIn(protocol.gateway, signed as unknown as AuthContext, client)
    await (detail === undefined ? signing : t.rejects(signing, { code: 'denied', detail }))
    const said: string[] = []
    const options = { password: '', privateKey: pair.private, debug: (line: string) => void said.push(line) }
    await (detail === undefined ? protocol.connect(options) : refused(t, protocol, options))
    t.equal(said.filter((line) => line.includes('USERAUTH_PK_OK')).length, 1, `${detail}`)
  }
})

void t.test('an account without the SFTP permission is rejected', async (t) => {
  const protocol = await startProtocol(t)
  await protocol.gateway.accounts.users.update((await ada(protocol)).id, { permission: permissionBits.write })
  await refused(t, protocol, {})
})

void t.test('a connection is closed when its key is deleted or its account is disabled', async (t) => {
  const protocol = await startProtocol(t)
  const pair = await generateKeyPair('ed25519', { comment: 'test' })
  const key = await addKey(protocol, 'short-lived', pair)
  const byKey = await protocol.connect({ password: '', privateKey: pair.private })
  const byPassword = await protocol.connect()
  const keyGone = once(byKey, 'close')
  await protocol.gateway.accounts.keys.delete(key.userId, key.id)
  await keyGone
  const accountGone = once(byPassword, 'close')
  await protocol.gateway.accounts.users.update(key.userId, { disabled: true })
  await accountGone
  await refused(t, protocol, { password })
})

void t.test('the announcement is sent as banner', async (t) => {
  const protocol = await startProtocol(t)
  await protocol.gateway.settings.set(new Map([['announcement', 'Back at noon']]))
  const client = new ssh2.Client()
  t.teardown(() => client.end())
  const banner = once(client, 'banner')
  client.on('error', () => undefined).connect({ host: '127.0.0.1', port: protocol.port, username: 'ada', password })
  t.match(await banner, ['Back at noon\r\n'])
})

void t.test('a connection without a sign-in is closed after the timeout', async (t) => {
  const { port } = await startProtocol(t, { loginSeconds: 0.1 })
  const socket = connectSocket(port, '127.0.0.1')
  await new Promise((resolve) =>
    socket
      .once('close', resolve)
      .on('error', () => undefined)
      .resume(),
  )
})

void t.test('at the limit of unauthenticated connections, the largest network loses its oldest one', async (t) => {
  const protocol = await startProtocol(t, { unauthenticated: 4 })
  const silent = async (localAddress: string) => {
    const socket = connectSocket({ port: protocol.port, host: '127.0.0.1', localAddress })
    t.teardown(() => socket.destroy())
    socket.on('error', () => undefined)
    await once(socket, 'data')
    return socket
  }
  const quiet = await silent('127.0.0.2')
  const flood = [await silent('127.0.0.1'), await silent('127.0.0.1'), await silent('127.0.0.1')]
  const gone = once(flood[0] ?? quiet, 'close')
  const client = await protocol.connect({ localAddress: '127.0.0.3' })
  await openChannel(client)
  await gone
  t.notOk(quiet.closed)
  t.same(
    flood.map(({ closed }) => closed),
    [true, false, false],
  )
})

void t.test('a burst of connections from one network does not end those that are signing in', async (t) => {
  const protocol = await startProtocol(t, { unauthenticated: 8, keyExchanges: { burst: 100, perSecond: 100 } })
  const established = await protocol.connect()
  const outcomes = await Promise.allSettled(Array.from({ length: 40 }, () => protocol.connect()))
  const signedIn = outcomes.flatMap((outcome) => (outcome.status === 'fulfilled' ? [outcome.value] : []))
  const first = outcomes.slice(0, 8).map(({ status }) => status)
  t.same(first, Array(8).fill('fulfilled'), 'the first of them sign in')
  for (const client of [established, ...signedIn]) await openChannel(client)
  await openChannel(await protocol.connect())
})

void t.test('garbage before the handshake ends only that connection', async (t) => {
  const protocol = await startProtocol(t)
  for (const garbage of ['GET / HTTP/1.1\r\n\r\n', 'SSH-2.0-x\r\n' + '\0'.repeat(500), randomBytes(70_000)]) {
    const socket = connectSocket(protocol.port, '127.0.0.1')
    socket.on('error', () => undefined).resume()
    socket.write(garbage)
    socket.end()
    await once(socket, 'close')
  }
  await openChannel(await protocol.connect())
})

void t.test('the numbers of connections of a user, at most half of all, and of channels are limited', async (t) => {
  const protocol = await startProtocol(t, { connections: 4, sessions: 2 })
  const client = await protocol.connect()
  await openChannel(client)
  await openChannel(client)
  await t.rejects(openChannel(client))
  await protocol.connect()
  await t.rejects(protocol.connect())
})

void t.test('the number of handles of a channel is limited, and CLOSE frees a handle', async (t) => {
  const protocol = await startProtocol(t, { handles: 2 })
  const client = new PacketClient(await openChannel(await protocol.connect()))
  await client.start()
  const folder = await client.openFolder('/')
  t.ok(Buffer.isBuffer(folder))
  const file = await client.mustOpen('/file', flags.write | flags.create)
  t.equal(await client.open('/other', flags.write | flags.create), status.failure)
  t.equal(await client.openFolder('/'), status.failure)
  await client.close(file)
  t.ok(Buffer.isBuffer(await client.open('/file', flags.read)))
})
