/** Password guessing, and disguised addresses. */
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { generateSync } from 'otplib'
import { Client, type KeyboardInteractiveAuthMethod } from 'ssh2'
import t, { type Test } from 'tap'
import { asPath } from '../../src/base/path.js'
import { startDaemon, startGateway, withoutNodes, type Daemon, type RunningGateway } from '../gateway.js'
import { processorTime } from '../processor-time.js'
import {
  addRule,
  addUser,
  basic,
  everyPermission,
  packets,
  post,
  send,
  unbound,
  userPassword,
  type Envelope,
} from './world.js'
import { until } from '../until.js'

type Headers = Readonly<Record<string, string>>

async function login({ url }: Pick<RunningGateway, 'url'>, username: string, password: string, headers: Headers = {}) {
  const body = JSON.stringify({ username, password })
  const { text } = await send(url, 'POST', '/api/auth/login', { 'content-type': 'application/json', ...headers }, body)
  return JSON.parse(text) as Envelope
}

/** Every header in which proxies send the address of their client. */
const disguises = (address: string): Headers => ({
  'x-forwarded-for': address,
  'x-real-ip': address,
  forwarded: `for=${address}`,
  'true-client-ip': address,
  'cf-connecting-ip': address,
  'client-ip': address,
  'x-client-ip': address,
  'x-cluster-client-ip': address,
})

void t.test('the address of a client is that of its socket, regardless of untrusted headers', async (t) => {
  const running = await startGateway(t)
  for (let tried = 0; tried < 5; tried++) {
    t.match(await login(running, 'admin', 'wrong', disguises(`203.0.113.${tried}`)), { code: 400 })
  }
  t.match(await login(running, 'admin', running.adminPassword, disguises('203.0.113.99')), { code: 429 })
  t.match(await login(running, 'admin', running.adminPassword), { code: 429 })
  const authorization = basic('admin', running.adminPassword)
  const dav = await send(running.url, 'PROPFIND', '/dav/', { authorization, ...disguises('203.0.113.100') })
  t.equal(dav.status, 429, 'all protocols share one lockout')
  t.ok(Number(dav.headers['retry-after']) > 0)
  await t.rejects(packets(t, running, 'admin', running.adminPassword))
})

void t.test('of the addresses from a trusted proxy, the last untrusted one applies', async (t) => {
  const running = await startGateway(t, { config: { trusted_proxies: ['127.0.0.0/8', '10.0.0.0/8'] } })
  for (let tried = 0; tried < 5; tried++) {
    const headers = { 'x-forwarded-for': `203.0.113.${tried}, 198.51.100.7, 10.0.0.1` }
    t.match(await login(running, 'admin', 'wrong', headers), { code: 400 })
  }
  const again = { 'x-forwarded-for': '203.0.113.77, 198.51.100.7, 10.0.0.1' }
  t.match(await login(running, 'admin', running.adminPassword, again), { code: 429 })
  t.match(await login(running, 'admin', running.adminPassword, { 'x-forwarded-for': '198.51.100.8' }), { code: 200 })
  for (const spoofed of ['', ',', 'unknown', 'for=198.51.100.7', '198.51.100.7:1, x', '[::ffff:198.51.100.7]', '%00']) {
    const answer = await login(running, 'nobody', 'wrong', { 'x-forwarded-for': spoofed })
    t.ok([400, 429].includes(answer.code), spoofed)
  }
})

/** Signs in by keyboard-interactive with these answers in order. Rejects if the sign-in fails. */
function byQuestions(t: Test, { sftpPort }: RunningGateway, answers: readonly string[]): Promise<void> {
  const left = [...answers]
  const client = new Client()
  t.teardown(() => client.end())
  const method: KeyboardInteractiveAuthMethod = {
    type: 'keyboard-interactive',
    username: 'ann',
    prompt: (_name, _instructions, _language, prompts, finish) => finish(prompts.map(() => left.shift() ?? '')),
  }
  return new Promise((resolve, reject) => {
    client.once('ready', resolve).on('error', reject)
    client.connect({ host: '127.0.0.1', port: sftpPort, username: 'ann', authHandler: [method] })
  })
}

void t.test('after ten wrong codes for an account, all protocols reject codes from new addresses', async (t) => {
  const running = await startGateway(t, { config: { trusted_proxies: ['127.0.0.0/8'] } })
  await addUser(running, 'ann', everyPermission)
  const password = userPassword
  const time = Date.now() / 1000
  const call = async (path: string, fields: object, headers: Headers): Promise<Envelope> => {
    const json = { 'content-type': 'application/json', ...headers }
    return JSON.parse((await send(running.url, 'POST', path, json, JSON.stringify(fields))).text) as Envelope
  }
  const from = (address: string): Headers => ({ 'x-forwarded-for': address })
  const home = from('203.0.113.1')

  const { data } = await call('/api/auth/login', { username: 'ann', password }, home)
  const session = { ...home, authorization: (data as { token: string }).token }
  const { secret } = (await call('/api/auth/2fa/generate', {}, session)).data as { secret: string }
  const codeAt = (offset: number) => generateSync({ secret, epoch: time + offset })
  const verified = await call('/api/auth/2fa/verify', { code: codeAt(0), secret }, session)
  t.match(verified, { code: 200 })

  const near = [-60, -30, 0, 30, 60, 90].map(codeAt)
  const wrong = Array.from({ length: 20 }, (_, n) => String(n).padStart(6, '0')).filter((code) => !near.includes(code))
  const guesses = wrong.slice(0, 12).map((code, n) => {
    const hash = createHash('sha256').update(`${password}-https://github.com/alist-org/alist`).digest('hex')
    const [path, presented] = n % 2 === 0 ? ['login', password] : ['login/hash', hash]
    const fields = { username: 'ann', password: presented, otp_code: code }
    return call(`/api/auth/${path}`, fields, from(`198.51.100.${n}`))
  })
  const codes = (await Promise.all(guesses)).map(({ code }) => code).sort()
  t.strictSame(codes, [...Array<number>(10).fill(402), 429, 429])

  const fields = { username: 'ann', password, otp_code: codeAt(30) }
  t.match(await call('/api/auth/login', fields, from('192.0.2.1')), { code: 429 })
  const other = { ...session, ...from('192.0.2.2') }
  t.match(await call('/api/auth/2fa/verify', { code: codeAt(30), secret, current_code: codeAt(30) }, other), {
    code: 429,
  })
  await t.rejects(byQuestions(t, running, [password, codeAt(30)]), 'SFTP, from another address')
  t.match(await call('/api/auth/login', fields, home), { code: 200 }, 'an address that has sent a right code before')
})

void t.test('an unknown name takes as long as a wrong password, and gets the same message', async (t) => {
  const running = await startGateway(t, { config: { trusted_proxies: ['127.0.0.1'] } })
  await addUser(running, 'known', everyPermission)
  await addUser(running, 'barred', everyPermission)
  const { users } = running.gateway.accounts
  await users.update(users.byName('barred')?.id ?? 0, { disabled: true })
  const times: Record<string, number[]> = { known: [], unknown: [], barred: [] }
  const told = new Set<string>()
  let address = 0
  for (let round = 0; round < 9; round++) {
    for (const [name, spans] of Object.entries(times)) {
      const headers = { 'x-forwarded-for': `198.51.100.${++address}` }
      // Few enough per account that none is delayed.
      const username = name === 'unknown' ? `unknown ${round}` : name
      const span = await processorTime(async () => {
        const { code, message } = await login(running, username, 'wrong', headers)
        told.add(`${code} ${message}`)
      })
      spans.push(span)
    }
  }
  const median = (spans: readonly number[]) => [...spans].sort((one, other) => one - other)[4] ?? 0
  const [known, unknown, barred] = [times.known, times.unknown, times.barred].map((spans) => median(spans ?? []))
  t.equal(told.size, 1, [...told].join(' | '))
  for (const other of [unknown, barred]) {
    const ratio = (other ?? 0) / (known ?? 1)
    t.ok(ratio > 0.5 && ratio < 2, `${known} ms for a known name, ${other} for another`)
  }
})

void t.test(
  'under wrong sign-ins from 33 networks, a right one from elsewhere does not wait for each',
  { skip: withoutNodes },
  async (t) => {
    const running = await startGateway(t, { config: { trusted_proxies: ['127.0.0.1'] } })
    const over = new AbortController()
    let answered = 0
    // Each has a name of its own, so that no answer is delayed.
    const wrong = async (network: number, attempt: number): Promise<void> => {
      const headers = { 'content-type': 'application/json', 'x-forwarded-for': `198.51.100.${network}` }
      const body = JSON.stringify({ username: `${network} ${attempt}`, password: 'wrong' })
      await fetch(`${running.url}/api/auth/login`, { method: 'POST', headers, body, signal: over.signal })
      answered++
    }
    const attempts = Array.from({ length: 33 * 8 }, (_, n) => wrong(n % 33, n))
    const all = Promise.allSettled(attempts)
    await Promise.race(attempts)
    const before = answered
    const right = await login(running, 'admin', running.adminPassword, { 'x-forwarded-for': '203.0.113.1' })
    t.equal(right.code, 200)
    t.ok(answered - before <= 4, `${answered - before} wrong ones were answered before it`)
    over.abort()
    await all
  },
)

void t.test('different wrong passwords of a folder lock it for their network', { skip: withoutNodes }, async (t) => {
  const running = await startGateway(t, { config: { trusted_proxies: ['127.0.0.1'] } })
  const { gateway, url } = running
  await gateway.accounts.users.update(gateway.accounts.users.byUniqueRole('guest')?.id ?? 0, {
    disabled: false,
    permission: 0x100,
  })
  await addUser(running, 'ann', ['write'])
  const all = gateway.as(unbound())
  for (const [folder, password] of [
    ['closed', 'sesame'],
    ['other', 'other word'],
  ] as const) {
    await all.mkdir(asPath(`/${folder}`))
    await addRule(running, `/${folder}`, { password, passwordSub: true })
  }
  const { data } = await login(running, 'ann', userPassword)
  const ann = (data as { token: string }).token
  const call = async (network: string, password: string, path = '/closed', target = '/api/fs/list') => {
    const headers = { 'content-type': 'application/json', authorization: ann, 'x-forwarded-for': network, password }
    const { text, headers: answered } = await send(
      url,
      'POST',
      target,
      headers,
      JSON.stringify({ path, page: 1, per_page: 9 }),
    )
    const { code, message } = JSON.parse(text) as Envelope
    return { code, message, retryAfter: answered['retry-after'] }
  }
  const dav = async (network: string, password: string) => {
    const headers = { authorization: basic('guest', password), 'x-forwarded-for': network, depth: '1' }
    return (await send(url, 'PROPFIND', '/dav/closed/', headers)).status
  }
  const put = async (network: string, password: string) => {
    const headers = {
      authorization: ann,
      'x-forwarded-for': network,
      password,
      'file-path': '/closed/new',
      'content-length': '1',
    }
    return (JSON.parse((await send(url, 'PUT', '/api/fs/put', headers, 'x')).text) as Envelope).code
  }

  const home = '198.51.100.1'
  for (let n = 0; n < 20; n++) t.equal((await call(home, 'the last one')).code, 403, 'a repeated one counts once')
  for (let n = 0; n < 20; n++) t.equal((await call(home, '')).code, 403, 'none is no guess')
  t.equal((await call(home, 'other word')).code, 403, 'that of another folder is no guess')
  t.equal((await call(home, 'sesame')).code, 200)
  for (const n of [1, 2]) t.equal((await call(home, `wrong ${n}`)).code, 403)
  t.equal(await dav(home, 'wrong 3'), 401)
  t.equal(await put(home, 'wrong 4'), 403)
  const locked = await call(home, 'wrong 5')
  t.match(locked, { code: 429, message: 'too many wrong passwords for this folder, try again later' })
  t.ok(Number(locked.retryAfter) > 200 && Number(locked.retryAfter) <= 300, String(locked.retryAfter))
  t.equal((await call(home, 'sesame')).code, 429, 'the right one, too')
  t.equal((await call(home, 'sesame', '/closed', '/api/fs/get')).code, 429)
  t.equal(await dav(home, 'sesame'), 429, 'every protocol is locked')
  t.equal(await put(home, 'sesame'), 429)
  t.equal((await call(home, '')).code, 403, 'whoever sends none is told that one is required')
  t.equal((await call(home, 'sesame', '/')).code, 200)
  t.equal((await call(home, 'other word', '/other')).code, 200, 'another rule')
  t.equal((await call('198.51.100.2', 'sesame')).code, 200, 'another network')
})

void t.test('names and passwords of any form are rejected without other effects', async (t) => {
  const running = await startGateway(t, { config: { trusted_proxies: ['127.0.0.1'] } })
  const odd = [
    '',
    ' ',
    'admin ',
    ' admin',
    'ADMIN',
    'admin\0',
    'admin\n',
    "admin'--",
    'admin" or 1=1',
    '%61dmin',
    'аdmin',
    'x'.repeat(60_000),
    '__proto__',
    'constructor',
    '\ud800',
    '*',
    '.',
    '..',
  ]
  // Each has its own address and account, so that none is delayed by the failures of another.
  const wrong = async (text: string, index: number): Promise<void> => {
    const headers = { 'x-forwarded-for': `198.51.100.${index}` }
    const owner = `owner ${index}`
    await addUser(running, owner, everyPermission)
    for (const [username, password] of [
      [text, running.adminPassword],
      [owner, text],
    ] as const) {
      const answer = await login(running, username, password, headers)
      t.match(answer, { code: 400, data: null }, JSON.stringify([username, password]).slice(0, 60))
      t.notMatch(answer.message, 'x'.repeat(100))
    }
  }
  await Promise.all(odd.map(wrong))
  for (const body of [
    { username: 'admin', password: null },
    { username: 'admin' },
    { username: ['admin'], password: running.adminPassword },
    { username: { $ne: '' }, password: { $ne: '' } },
    { username: 'admin', password: 0 },
    { username: 'admin', password: true },
  ]) {
    t.match(await post(running.url, '/api/auth/login', body), { code: 400, data: null }, JSON.stringify(body))
    t.match(await post(running.url, '/api/auth/login/hash', body), { code: Number, data: null }, JSON.stringify(body))
  }
})

async function resident(daemon: Daemon): Promise<number> {
  const status = await readFile(`/proc/${daemon.pid}/status`, 'utf8')
  return Number(/VmHWM:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1024
}

/**
 * Sends headers that declare 100 MB, then as much as the server accepts. Resolves to the response and the bytes sent.
 */
function flood(
  daemon: Daemon,
  target: string,
  headers: Headers,
): Promise<{ reply: string; sent: number; closed: boolean }> {
  const { hostname, port } = new URL(daemon.url)
  const chunk = Buffer.alloc(1024 * 1024, '{"username":"')
  return new Promise((resolve) => {
    let [reply, sent, closed] = ['', 0, false]
    const socket = connect(Number(port), hostname)
    const done = () => {
      socket.destroy()
      resolve({ reply, sent, closed })
    }
    const more = () => {
      while (sent < 100 && !socket.destroyed) {
        sent++
        if (!socket.write(chunk)) return
      }
    }
    const lines = Object.entries({ host: 'x', 'content-type': 'application/json', ...headers })
    socket.write(`POST ${target} HTTP/1.1\r\n${lines.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n`)
    socket.on('drain', more).on('data', (data: Buffer) => (reply += data.toString('latin1')))
    socket
      .on('error', () => undefined)
      .on('close', () => {
        closed = true
        done()
      })
    setTimeout(done, 20_000).unref()
    more()
  })
}

void t.test(
  'a sign-in of 100 MB is rejected before it has arrived, and is not held in memory',
  { skip: process.platform !== 'linux' },
  async (t) => {
    const daemon = await startDaemon(t)
    await login(daemon, 'admin', daemon.adminPassword)
    const before = await resident(daemon)
    for (const target of [
      '/api/auth/login',
      '/api/auth/login/hash',
      '/api/auth/2fa/verify',
      '/api/fs/list',
      '/api/me/update',
    ]) {
      const { reply, closed, sent } = await flood(daemon, target, { 'content-length': String(100 * 1024 * 1024) })
      t.match(reply, /"code":4\d\d/, `${target} answers`)
      t.ok(closed && sent <= 100, `${target} ends the connection`)
      const chunks = await flood(daemon, target, { 'transfer-encoding': 'chunked' })
      // The connection may end before the response arrives.
      t.ok(chunks.closed, `${target} with invalid chunks`)
      t.match(chunks.reply, /^$|^HTTP\/1\.1 (400|200)/)
    }
    const all = await Promise.all(
      Array.from({ length: 10 }, () =>
        flood(daemon, '/api/auth/login', { 'content-length': String(100 * 1024 * 1024) }),
      ),
    )
    for (const { reply } of all) t.match(reply, /"code":400/)
    const risen = (await resident(daemon)) - before
    t.ok(risen < 100, `memory rose by ${Math.round(risen)} MiB`)
    t.match(await login(daemon, 'admin', daemon.adminPassword), { code: 200 })
  },
)

void t.test('a rejected sign-in is logged in one line, without the entered name and password', async (t) => {
  const daemon = await startDaemon(t)
  const typed = 'a password typed as a name'
  await login(daemon, typed, 'wrong-secret-1')
  await login(daemon, 'admin', 'wrong-secret-2')
  await send(daemon.url, 'PROPFIND', '/dav/', { authorization: basic('admin', 'wrong-secret-3') })
  const running = daemon as unknown as RunningGateway
  await t.rejects(packets(t, running, 'admin', 'wrong-secret-4'))
  const lines = () => daemon.log.split('\n').filter((line) => line.includes('refused'))
  await until(() => lines().length >= 4)
  t.equal(lines().length, 4, lines().join('\n'))
  t.notMatch(daemon.log, /wrong-secret|typed as a name/)
  const { data } = await login(daemon, 'admin', daemon.adminPassword)
  t.notMatch(daemon.log, (data as { token: string }).token)
  t.notMatch(daemon.log, userPassword)
  t.notMatch(daemon.log, daemon.adminPassword)
})
