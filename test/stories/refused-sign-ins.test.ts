/** Who could not sign in, or open a share, and why: as the audit has it, by every protocol alike. */
import { generateSync } from 'otplib'
import { generateKeyPair } from '../../protocols/sftp/host-keys.js'
import { newOtpSecret } from '../../src/accounts/otp.js'
import { allPermissions } from '../../src/accounts/principal.js'
import type { NumberedEvent } from '../../src/database/audit-rows.js'
import { startGateway, type RunningGateway } from '../gateway.js'
import { until } from '../until.js'
import { connect } from './task-client.js'
import ssh2, { type AnyAuthMethod, type ConnectConfig } from 'ssh2'
import t, { type Test } from 'tap'

const password = 'a password'

interface Refusals extends RunningGateway {
  /** The refused events that are new since the last call, as soon as there are so many. */
  readonly recorded: (count: number) => Promise<readonly string[]>
}

const told = ({ kind, actor, error, subject }: NumberedEvent) =>
  [kind, actor.protocol, actor.name || '-', error, subject].filter((part) => part !== undefined).join(' ')

async function start(t: Test): Promise<Refusals> {
  const running = await startGateway(t)
  const { gateway } = running
  await gateway.accounts.users.create({
    ...{ username: 'ada', password, basePath: '/', role: 'general', permission: allPermissions },
    ...{ disabled: false, ssoId: '' },
  })
  let seen = 0
  const recorded = async (count: number) => {
    const all = async () => (await gateway.store.audit.after(0, { result: 'refused' }, 1000)).events
    await until(async () => (await all()).length >= seen + count)
    // What comes last would be behind one that must not be there.
    const events = (await all()).slice(seen)
    seen += events.length
    for (const { actor } of events) t.equal(actor.address, '127.0.0.1')
    return events.map(told).sort()
  }
  return { ...running, recorded }
}

/** Connects by SSH. Resolves to whether it has signed in, when the connection is closed. */
async function ssh({ sftpPort }: Refusals, options: ConnectConfig): Promise<boolean> {
  const client = new ssh2.Client()
  return new Promise((resolve) => {
    let hasSignedIn = false
    client.on('ready', () => {
      hasSignedIn = true
      client.end()
    })
    client.on('error', () => undefined).on('close', () => resolve(hasSignedIn))
    client.connect({ host: '127.0.0.1', port: sftpPort, username: 'ada', ...options })
  })
}

/** A handler that makes these attempts, one after the other. */
function attempts(methods: readonly AnyAuthMethod[]): Pick<ConnectConfig, 'authHandler'> {
  const left = [...methods]
  return { authHandler: (_left, _partial, next) => next(left.shift() ?? (false as never)) }
}

void t.test('of a connection that tries keys, one refusal is recorded, and none if it signs in', async (t) => {
  const running = await start(t)
  const { accounts } = running.gateway
  const keys = await Promise.all(['a', 'b', 'c'].map((comment) => generateKeyPair('ed25519', { comment })))
  const method = ({ private: key }: { readonly private: string }): AnyAuthMethod => {
    return { type: 'publickey', username: 'ada', key }
  }
  t.equal(await ssh(running, attempts(keys.map(method))), false)
  t.same(await running.recorded(1), ['signin.refused sftp ada key_refused'])
  t.equal(await ssh(running, { username: 'not a user', privateKey: keys[0]?.private ?? '' }), false)
  t.same(await running.recorded(1), ['signin.refused sftp - key_refused'])

  const { id } = accounts.users.byName('ada') ?? { id: 0 }
  await accounts.keys.add(id, 'c', keys[2]?.public ?? '')
  t.equal(await ssh(running, attempts(keys.map(method))), true)
  const none: AnyAuthMethod = { type: 'none', username: 'ada' }
  t.equal(await ssh(running, attempts([none])), false, 'who asks for the methods has tried nothing')
  const wrong: AnyAuthMethod = { type: 'password', username: 'ada', password: 'wrong' }
  const first = keys.slice(0, 1).map(method)
  t.equal(await ssh(running, attempts([none, ...first, wrong, ...first, wrong])), false)
  t.same(await running.recorded(2), Array(2).fill('signin.refused sftp ada wrong_credentials'))
  const { events } = await running.gateway.store.audit.after(0, { kinds: ['signin.ok'], user: 'ada' }, 10)
  t.match(events, [{ actor: { protocol: 'sftp', credential: /^key:/ } }])
})

void t.test('who may not use SFTP is recorded as refused, and not as signed in', async (t) => {
  const running = await start(t)
  const { accounts, store } = running.gateway
  const { id } = accounts.users.byName('ada') ?? { id: 0 }
  const pair = await generateKeyPair('ed25519', { comment: 'test' })
  await accounts.keys.add(id, 'test', pair.public)
  await accounts.users.update(id, { permission: 0 })
  t.equal(await ssh(running, { password }), false)
  t.equal(await ssh(running, { privateKey: pair.private }), false)
  t.same(await running.recorded(2), Array(2).fill('signin.refused sftp ada protocol_denied'))
  t.same((await store.audit.after(0, { kinds: ['signin.ok'], user: 'ada' }, 10)).events, [])
})

void t.test('a correct password without its code is told apart from a wrong code', async (t) => {
  const running = await start(t)
  const { url, davUrl, gateway } = running
  const secret = newOtpSecret()
  const { id } = gateway.accounts.users.byName('ada') ?? { id: 0 }
  await gateway.accounts.users.update(id, { otpSecret: secret })
  const signIn = async (code?: string) => {
    const response = await fetch(`${url}/api/auth/login`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ username: 'ada', password, otp_code: code }),
    })
    return ((await response.json()) as { code: number }).code
  }
  const prompted = (answers: readonly string[]) => {
    const left = [...answers]
    return ssh(running, {
      ...attempts([
        {
          type: 'keyboard-interactive',
          username: 'ada',
          prompt: (_name, _instructions, _language, prompts, finish) => {
            finish(prompts.map(() => left.shift() ?? ''))
          },
        },
      ]),
    })
  }
  t.equal(await signIn(), 402)
  t.same(await running.recorded(1), ['signin.refused http ada code_required'])
  t.equal(await signIn('000000x'), 402)
  t.same(await running.recorded(1), ['signin.refused http ada wrong_code'])
  const authorization = `Basic ${Buffer.from(`ada:${password}`).toString('base64')}`
  t.ok([401, 403].includes((await fetch(davUrl, { method: 'PROPFIND', headers: { authorization } })).status))
  t.same(await running.recorded(1), ['signin.refused webdav ada code_required'])
  t.equal(await ssh(running, { password }), false)
  t.same(await running.recorded(1), ['signin.refused sftp ada code_required'])
  t.equal(await prompted([password, '000000x']), false)
  t.same(await running.recorded(2), ['signin.refused sftp ada code_required', 'signin.refused sftp ada wrong_code'])
  t.equal(await prompted([password, generateSync({ secret })]), true)
  t.same(await running.recorded(1), ['signin.refused sftp ada code_required'])
})

void t.test('tokens that are none, or were revoked, are recorded', async (t) => {
  const running = await start(t)
  const { url, davUrl, gateway } = running
  const token = await gateway.accounts.signIn.issueToken({
    ...{ username: 'ada', password: { plain: password }, address: '127.0.0.1' },
  })
  const ask = async (authorization: string) =>
    (await ((await fetch(`${url}/api/me`, { headers: { authorization } })).json() as Promise<{ code: number }>)).code
  t.equal(await ask(token), 200)
  t.equal(await ask('nothing'), 401)
  t.equal((await fetch(davUrl, { method: 'PROPFIND', headers: { authorization: 'Bearer nothing' } })).status, 401)
  t.same(await running.recorded(2), ['signin.refused http - token_unknown', 'signin.refused webdav - token_unknown'])
  await gateway.accounts.tokens.revoke(token)
  t.equal(await ask(token), 401)
  t.same(await running.recorded(1), ['signin.refused http ada token_revoked'])
})

void t.test('wrong codes of shares, and ids of none, are recorded', async (t) => {
  const running = await start(t)
  const { url } = running
  const admin = await connect(running)
  await admin.post('/api/fs/mkdir', { path: '/a' })
  const made = await admin.post('/api/share/create', { files: ['/a'], pwd: 'abc' })
  const { id, pseudonym } = made as { id: string; pseudonym: string }
  const open = async (of: string, code: string) => {
    const response = await fetch(`${url}/api/fs/list`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ path: `/@s/${of}`, password: code }),
    })
    return ((await response.json()) as { code: number }).code
  }
  t.equal(await open(id, ''), 403, 'the client asks for the code then')
  t.equal(await open(id, 'wrong'), 403)
  t.same(await running.recorded(1), [`share.opened http share:${pseudonym} share_code_wrong ${pseudonym}`])
  t.not(await open('none-such', 'x'), 200)
  t.same(await running.recorded(1), ['share.opened http guest share_missing'])
  for (let n = 0; n < 7; n++) await open(id, `wrong ${n}`)
  t.equal(await open(id, 'abc'), 429)
  t.same(
    (await running.recorded(8)).at(-1),
    `share.opened http share:${pseudonym} throttled ${pseudonym}`,
    'also what was not compared any more',
  )
  const drive = (path: string, name: string, code: string) =>
    fetch(`${url}/dav/${path}`, {
      method: 'PROPFIND',
      headers: { authorization: `Basic ${Buffer.from(`${name}:${code}`).toString('base64')}` },
    })
  t.equal((await drive('', 'none-such', 'wrong')).status, 401)
  t.same(await running.recorded(1), ['signin.refused webdav - wrong_credentials'], 'an account was asked for too')
  t.equal((await drive('@s/none-such', 'none-such', 'wrong')).status, 401)
  t.same(await running.recorded(1), ['share.opened webdav guest share_code_wrong'])
  t.equal((await running.gateway.store.audit.after(0, { kinds: ['share.opened'], result: 'done' }, 9)).events.length, 0)
})
