/** Signing in with the passwords of a real OpenLDAP, over HTTP, WebDAV and SFTP, and with a directory that is dead. */
import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import { mock } from 'node:test'
import t, { type Test } from 'tap'
import { allPermissions } from '../../src/accounts/principal.js'
import { GatewayError } from '../../src/base/errors.js'
import '../fast-hashes.js'
import { startGateway, withoutNodes, type RunningGateway } from '../gateway.js'
import { lacks } from '../programs.js'
import { addUser, basic, everyPermission, packets, post, send, userPassword, type Envelope } from '../security/world.js'
import { until } from '../until.js'
import { reader, slapdPrograms, startSlapd, suffix, type SlapdServer } from '../servers/slapd.js'

/** A gateway that trusts the header with the address of a client, with these settings of LDAP. */
async function start(t: Test, settings: Readonly<Record<string, string>>): Promise<RunningGateway> {
  const running = await startGateway(t, { config: { trusted_proxies: ['127.0.0.0/8'] } })
  await change(running, {
    egress_networks: '127.0.0.0/8',
    ldap_login_enabled: 'true',
    ldap_manager_dn: reader.dn,
    ldap_manager_password: reader.password,
    ldap_user_search_base: `ou=people,${suffix}`,
    ldap_default_permission: String(allPermissions),
    ...settings,
  })
  return running
}

const change = ({ gateway }: RunningGateway, settings: Readonly<Record<string, string>>) =>
  gateway.settings.set(new Map(Object.entries(settings)))

/** Looks up the user a day after it was last confirmed. */
async function lookUpLater({ gateway }: RunningGateway, userId: number): Promise<void> {
  const [row] = gateway.accounts.identities.of(userId)
  if (row === undefined) throw new Error('the user is not linked')
  const ago = Math.min(row.checked.getTime(), Date.now() - 25 * 3600_000)
  await gateway.store.identities.see(row.id, { checked: new Date(ago) })
  await gateway.accounts.reload()
  await gateway.ldap.lookUp()
}

let clients = 0
/** A client whose address nobody else has. */
const newClient = () => ({ 'x-forwarded-for': `203.0.${++clients >> 8}.${clients & 255}` })

async function login(
  { url }: RunningGateway,
  username: string,
  password: string,
  headers: Readonly<Record<string, string>> = newClient(),
  path = '/api/auth/login/ldap',
): Promise<Envelope> {
  const json = { 'content-type': 'application/json', ...headers }
  const { text } = await send(url, 'POST', path, json, JSON.stringify({ username, password }))
  return JSON.parse(text) as Envelope
}

const dav = ({ url }: RunningGateway, username: string, password: string, client = newClient()) =>
  send(url, 'PROPFIND', '/dav/', { authorization: basic(username, password), depth: '0', ...client })

/** A proxy before the directory, which counts connections, and ends those in which the client sends one of `texts`. */
async function counting(
  t: Test,
  slapd: SlapdServer,
  ...texts: readonly string[]
): Promise<{ readonly url: string; readonly count: () => number }> {
  let count = 0
  const server = createServer((socket) => {
    count++
    socket.on('data', (chunk: Buffer) => {
      if (texts.some((text) => chunk.includes(text))) socket.destroy()
    })
    const target = connect(slapd.port, '127.0.0.1')
    for (const each of [socket, target]) each.on('error', () => undefined)
    socket.pipe(target).pipe(socket)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  return { url: `ldap://127.0.0.1:${(server.address() as AddressInfo).port}`, count: () => count }
}

void t.test('with OpenLDAP', { skip: lacks(...slapdPrograms) }, async (t) => {
  const slapd = await startSlapd()
  t.teardown(() => slapd.stop())
  for (const name of ['ann', 'bob', 'carol', 'dora', 'eve', 'gus']) await slapd.addPerson(name, `${name} signs in`)
  await slapd.addGroup('staff', ['ann', 'bob', 'dora'])
  await slapd.addGroup('chiefs', ['bob'])
  const running = await start(t, {
    ldap_server: `ldap://localhost:${slapd.port}`,
    ldap_start_tls: 'true',
    ldap_ca_file: slapd.certificate,
    ldap_default_dir: '/homes/{username}',
  })
  const { gateway } = running
  const { users, groups, identities } = gateway.accounts
  const userOf = (name: string) => users.list().find(({ username }) => username.toLowerCase() === name)

  await t.test('a password of the directory signs in everywhere, and makes one account', async (t) => {
    t.match(await login(running, 'ANN', 'ann signs in'), { code: 200, data: { token: /./ } })
    const ann = userOf('ann')
    t.match(ann, { username: 'ann', basePath: '/homes/ann', permission: allPermissions, role: 'general' })
    t.match(await login(running, 'ann', 'ann signs in'), { code: 200 })
    t.match(await login(running, 'Ann', 'ann signs in', newClient(), '/api/auth/login'), { code: 200 })
    t.equal((await dav(running, 'ann', 'ann signs in')).status, 207)
    await packets(t, running, 'ann', 'ann signs in')
    t.equal(users.list().filter(({ username }) => username.toLowerCase() === 'ann').length, 1)
    t.match(identities.of(ann?.id ?? 0), [{ kind: 'ldap', issuer: 'ldap:dc=example,dc=org', provisioned: true }])
    const { data } = await login(running, 'ann', 'ann signs in')
    const me = await send(running.url, 'GET', '/api/me', { authorization: (data as { token: string }).token })
    t.match(JSON.parse(me.text), { data: { username: 'ann' } })
  })

  await t.test('an empty password, and a name that is a filter, sign nobody in', async (t) => {
    const before = users.list().length
    t.match(await login(running, 'ann', ''), { code: 400 })
    t.equal((await dav(running, 'ann', '')).status, 401)
    for (const name of ['*', '*)(uid=*', 'ann)(|(uid=*', '']) {
      t.not((await login(running, name, 'ann signs in')).code, 200, name)
    }
    t.equal(users.list().length, before)
  })

  await t.test('the password of a local account is enough, and that of a namesake is not', async (t) => {
    t.match(await login(running, 'admin', running.adminPassword), { code: 200 }, 'the admin signs in by either form')
    await addUser(running, 'carol', everyPermission)
    t.match(await login(running, 'carol', userPassword), { code: 200 })
    t.match(await login(running, 'carol', 'carol signs in'), { code: 400 })
    t.match(await login(running, 'CAROL', 'carol signs in'), { code: 400 }, 'nor in another case')
    t.equal(userOf('carol'), users.byName('carol'))
    t.equal(users.list().filter(({ username }) => username.toLowerCase() === 'carol').length, 1)
    await addUser(running, 'Frank', everyPermission)
    await slapd.addPerson('frank', 'frank signs in')
    t.match(await login(running, 'frank', 'frank signs in'), { code: 400 }, 'the folders of both could be one')
    t.equal(users.byName('frank'), undefined)

    const { data } = await login(running, 'admin', running.adminPassword)
    const authorization = (data as { token: string }).token
    const link = (fields: object) => post(running.url, '/api/admin/user/link_ldap', fields, authorization)
    const id = users.byName('carol')?.id
    t.match(await link({ id, name: 'nobody' }), { code: 404, message: /nobody/ })
    t.match(await link({ id, name: 'ann' }), { code: 400 }, 'ann is linked to another account')
    t.match(await link({ id: 9999, name: 'carol' }), { code: 404 })
    t.match(await link({ id, name: 'carol' }), { code: 200 })
    t.match(await login(running, 'carol', 'carol signs in'), { code: 200 })
    t.match(await login(running, 'CAROL', 'carol signs in'), { code: 200 })
    t.match(await login(running, 'carol', userPassword), { code: 200 })
    for (const name of ['admin', 'guest']) {
      await slapd.addPerson(name, `${name} signs in`)
      const fixed = await link({ id: users.byName(name)?.id, name })
      t.match(fixed, { code: 400, message: /^the guest and the built-in admin are not linked/ })
      t.match(await login(running, name, `${name} signs in`), { code: 400 }, name)
      t.match(await login(running, name.toUpperCase(), `${name} signs in`), { code: 400 }, name)
    }
  })

  await t.test('concurrent first sign-ins make one account', async (t) => {
    await slapd.addPerson('ivy', 'ivy signs in')
    const answers = await Promise.all(['ivy', 'IVY', 'Ivy', 'iVy'].map((name) => login(running, name, 'ivy signs in')))
    t.same(
      answers.map(({ code }) => code),
      [200, 200, 200, 200],
    )
    t.equal(users.list().filter(({ username }) => username.toLowerCase() === 'ivy').length, 1)
  })

  await t.test('a session of the console is opened and confirmed with it, and the audit says by what', async (t) => {
    const ask = (path: string, fields: object, cookie = '') =>
      send(
        running.url,
        'POST',
        path,
        { ...newClient(), 'content-type': 'application/json', origin: running.url, ...(cookie !== '' && { cookie }) },
        JSON.stringify(fields),
      )
    const opened = await ask('/api/auth/session', { username: 'ann', password: 'ann signs in' })
    t.match(JSON.parse(opened.text), { code: 200 })
    const [cookie = ''] = (opened.headers['set-cookie']?.[0] ?? '').split(';')
    const confirmed = await ask('/api/auth/session/confirm', { password: 'ann signs in' }, cookie)
    t.match(JSON.parse(confirmed.text), { code: 200 })
    t.match(JSON.parse((await ask('/api/auth/session/confirm', { password: 'wrong' }, cookie)).text), { code: 400 })
    const isRecorded = async () => {
      const { events } = await gateway.records.audit.list({}, 500)
      return events.some(
        ({ kind, actor, subject }) => kind === 'signin.ok' && actor.name === 'ann' && subject === 'ldap',
      )
    }
    t.ok(await until(isRecorded))
  })

  await t.test('an account follows its entry to another name', async (t) => {
    await slapd.addPerson('hal', 'hal signs in')
    t.match(await login(running, 'hal', 'hal signs in'), { code: 200 })
    const hal = userOf('hal')
    await slapd.rename('uid=hal,ou=people', 'uid=hank')
    await slapd.addPerson('hal', 'a new hal')
    t.match(await login(running, 'hank', 'hal signs in'), { code: 200 })
    t.match(await login(running, 'hal', 'hal signs in'), { code: 200 }, 'the name of the account stays')
    t.equal(userOf('hank'), undefined)
    t.equal(userOf('hal'), hal)
    t.match(await login(running, 'hal', 'a new hal'), { code: 400 }, 'who gets the old name does not get the account')
  })

  await t.test('refusals tell nothing of the name', async (t) => {
    const answers = ['admin', 'nobody', 'ann', 'gus', 'carol'].map(async (name) => {
      const started = performance.now()
      const answer = await login(running, name, 'wrong')
      return { answer, isLate: performance.now() - started >= 1000 }
    })
    const [first, ...others] = await Promise.all(answers)
    t.match(first, { answer: { code: 400 }, isLate: true })
    for (const other of others) t.same(other, first)
  })

  await t.test('groups are those of the directory at each sign-in, and others stay', async (t) => {
    const none = { description: '', permission: 0, admin: false, members: [] }
    const staff = await groups.create({ ...none, name: 'Staff' })
    const friends = await groups.create({ ...none, name: 'Friends' })
    await change(running, {
      ldap_group_map: JSON.stringify({
        [`CN=staff, OU=groups, ${suffix}`]: 'Staff',
        [`cn=chiefs,ou=groups,${suffix}`]: 'None of this name',
      }),
      ldap_admin_group_dn: `cn=chiefs,ou=groups,${suffix}`,
    })
    t.match(await login(running, 'bob', 'bob signs in'), { code: 200 })
    const bob = userOf('bob')?.id ?? 0
    await groups.update(friends.id, { members: [bob] })
    t.match(groups.of(bob), { isAdmin: true })
    t.ok(groups.of(bob).groups.includes(staff.id))

    await slapd.replace('cn=staff,ou=groups', 'member', [`uid=ann,ou=people,${suffix}`])
    await slapd.replace('cn=chiefs,ou=groups', 'member', [`uid=ann,ou=people,${suffix}`])
    t.match(await login(running, 'bob', 'bob signs in'), { code: 200 })
    t.same(groups.of(bob), { ...groups.of(bob), isAdmin: false, groups: [friends.id] })

    t.match(await login(running, 'ann', 'ann signs in'), { code: 200 })
    t.match(groups.of(userOf('ann')?.id ?? 0), { isAdmin: true })
    await change(running, { ldap_admin_group_dn: '' })
    t.match(await login(running, 'ann', 'ann signs in'), { code: 200 })
    t.match(groups.of(userOf('ann')?.id ?? 0), { isAdmin: false })
  })

  await t.test('without the required group nobody signs in, and nobody gets an account', async (t) => {
    await change(running, { ldap_required_group_dn: `cn=staff,ou=groups,${suffix}` })
    t.match(await login(running, 'ann', 'ann signs in'), { code: 200 })
    t.match(await login(running, 'dora', 'dora signs in'), { code: 400, message: /group/ })
    t.match(await login(running, 'dora', 'wrong'), { code: 400, message: /Invalid/ })
    t.equal(userOf('dora'), undefined)
    await change(running, { ldap_required_group_dn: '' })
  })

  await t.test('what a look-up has found and cannot be stored is in the log, and is looked up again', async (t) => {
    await slapd.replace('cn=chiefs,ou=groups', 'member', [`uid=ann,ou=people,${suffix}`])
    await change(running, { ldap_admin_group_dn: `cn=chiefs,ou=groups,${suffix}` })
    const ann = userOf('ann')?.id ?? 0
    const warn = mock.method(gateway.log, 'warn')
    const failure = new GatewayError('unavailable', { reason: 'the database is gone' })
    const stored = mock.method(gateway.store.groups, 'changeGroupsOf', () => Promise.reject(failure))
    await lookUpLater(running, ann)
    stored.mock.restore()
    t.same(
      warn.mock.calls.map((call) => call.arguments[0]),
      [{ account: 'ann', err: failure }],
    )
    t.equal(groups.of(ann).isAdmin, false)
    await gateway.ldap.lookUp()
    warn.mock.restore()
    t.equal(groups.of(ann).isAdmin, true)
    await change(running, { ldap_admin_group_dn: '' })
    await lookUpLater(running, ann)
    t.equal(groups.of(ann).isAdmin, false)
  })

  await t.test('whoever is gone loses app passwords, and gets them back', async (t) => {
    t.match(await login(running, 'eve', 'eve signs in'), { code: 200 })
    const eve = userOf('eve')?.id ?? 0
    const disk = { name: 'disk', protocols: ['webdav'], readOnly: false }
    const { password: secret } = await gateway.accounts.appPasswords.add(eve, disk)
    const status = async () => (await dav(running, 'eve', secret)).status
    t.equal(await status(), 207)
    const aDayLater = () => lookUpLater(running, eve)
    await aDayLater()
    t.equal(await status(), 207, 'she was looked up')
    t.ok((identities.of(eve)[0]?.checked.getTime() ?? 0) > Date.now() - 3600_000)
    await change(running, { ldap_required_group_dn: `cn=staff,ou=groups,${suffix}` })
    await aDayLater()
    t.equal(await status(), 403, 'she is not in the group')
    await change(running, { ldap_required_group_dn: '' })
    await aDayLater()
    t.equal(await status(), 207)
    await slapd.remove('uid=eve,ou=people')
    await aDayLater()
    t.equal(await status(), 403)
    await slapd.addPerson('eve', 'another eve')
    await aDayLater()
    t.equal(await status(), 403, 'a new person of the same name is another one')
    t.match(await login(running, 'eve', 'another eve'), { code: 400 })
  })

  await t.test('whoever is gone loses sessions, open connections and the groups of the directory', async (t) => {
    const chiefs = ['kim', 'lou', 'carol'].map((name) => `uid=${name},ou=people,${suffix}`)
    for (const name of ['kim', 'lou']) await slapd.addPerson(name, `${name} signs in`)
    await slapd.replace('cn=chiefs,ou=groups', 'member', chiefs)
    await change(running, { ldap_admin_group_dn: `cn=chiefs,ou=groups,${suffix}` })
    const open = async (name: string) => {
      const { data } = await login(running, name, `${name} signs in`)
      const fromHere = { ...newClient(), origin: running.url }
      t.match(await login(running, name, `${name} signs in`, fromHere, '/api/auth/session'), { code: 200 })
      return (data as { token: string }).token
    }
    const statusOf = async (token: string) => {
      const { text } = await send(running.url, 'GET', '/api/me', { authorization: token })
      return (JSON.parse(text) as Envelope).code
    }
    const rightsOf = (name: string) => groups.of(userOf(name)?.id ?? 0)
    const sessionsOf = (name: string) => gateway.accounts.consoleSessions.list(userOf(name)?.id ?? 0).length
    const [kim, lou, carol] = [await open('kim'), await open('lou'), await open('carol')]
    const connection = await packets(t, running, 'kim', 'kim signs in')
    for (const name of ['kim', 'lou', 'carol']) t.match(rightsOf(name), { isAdmin: true }, name)
    t.ok(sessionsOf('kim') > 0)

    for (const name of ['kim', 'carol']) {
      await slapd.remove(`uid=${name},ou=people`)
      await lookUpLater(running, userOf(name)?.id ?? 0)
    }
    t.equal(await statusOf(kim), 401)
    t.equal(sessionsOf('kim'), 0)
    await connection.closed
    t.same(rightsOf('kim'), { ...rightsOf('kim'), isAdmin: false, groups: [] })
    t.equal(
      await statusOf(carol),
      401,
      'who is admin by the directory signs in there, also if an admin has linked the account',
    )
    t.match(rightsOf('carol'), { isAdmin: false })
    t.equal(await statusOf(lou), 200)

    await change(running, { ldap_required_group_dn: `cn=staff,ou=groups,${suffix}` })
    t.match(await login(running, 'lou', 'lou signs in'), { code: 400, message: /group/ })
    t.equal(await statusOf(lou), 401, 'a sign-in that is refused is as a look-up')
    t.match(rightsOf('lou'), { isAdmin: false })
    await change(running, { ldap_required_group_dn: '', ldap_admin_group_dn: '' })
  })

  await t.test('whoever cannot be looked up keeps nobody else from it', async (t) => {
    const names = ['ann', 'bob', 'lou']
    const rowOf = (name: string) => {
      const [row] = identities.of(userOf(name)?.id ?? 0)
      if (row === undefined) throw new Error(`${name} is not linked`)
      return row
    }
    const subjects = ['ann', 'bob'].map((name) => rowOf(name).subject.replace('entryUUID=', ''))
    const { url } = await counting(t, slapd, ...subjects)
    await change(running, { ldap_server: url, ldap_start_tls: 'false' })
    for (const name of names) await gateway.store.identities.see(rowOf(name).id, { checked: new Date(1) })
    await gateway.accounts.reload()
    await gateway.ldap.lookUp()
    const times = names.map((name) => rowOf(name).checked.getTime() > 1)
    t.same(times, [false, false, true], 'he comes after two who failed')
    t.match(await login(running, 'lou', 'lou signs in'), { code: 200 }, 'nor from signing in')
    await change(running, { ldap_server: `ldap://localhost:${slapd.port}`, ldap_start_tls: 'true' })
  })

  await t.test('a name that the directory has no answer for stops no other sign-ins', async (t) => {
    const { url } = await counting(t, slapd, 'slow name')
    await change(running, { ldap_server: url, ldap_start_tls: 'false' })
    t.match(await login(running, 'slow name', 'x'), { code: 500, message: /directory/ })
    t.match(await login(running, 'bob', 'bob signs in'), { code: 200 })
    await change(running, { ldap_server: `ldap://localhost:${slapd.port}`, ldap_start_tls: 'true' })
  })

  await t.test(
    'a verified password is not asked of the directory again for a minute',
    { skip: withoutNodes },
    async (t) => {
      const { url, count } = await counting(t, slapd)
      await change(running, { ldap_server: url })
      const client = newClient()
      for (let request = 0; request < 5; request++) {
        t.equal((await dav(running, 'bob', 'bob signs in', client)).status, 207)
      }
      t.equal(count(), 1)
    },
  )

  await t.test('guesses are limited before the directory is asked', { skip: withoutNodes }, async (t) => {
    const { url, count } = await counting(t, slapd)
    await change(running, { ldap_server: url })
    const client = newClient()
    const guesses = Array.from({ length: 12 }, (_, n) => login(running, 'gus', `guess ${n}`, client))
    const codes = (await Promise.all(guesses)).map(({ code }) => code)
    t.equal(codes.filter((code) => code === 400).length, 5)
    t.equal(codes.filter((code) => code === 429).length, 7)
    t.equal(count(), 5)
    t.match(await login(running, 'gus', 'gus signs in', client), { code: 429 })
    t.match(await login(running, 'gus', 'gus signs in'), { code: 200 }, 'from elsewhere he signs in')

    await t.test('and those of many addresses together', async (t) => {
      const home = newClient()
      t.match(await login(running, 'gus', 'gus signs in', home), { code: 200 })
      const codes = []
      for (const name of ['gus', 'GUS', ' gus', 'Gus', 'gUs']) codes.push((await login(running, name, 'x')).code)
      t.same(new Set(codes.slice(-2)), new Set([429]), 'the directory was asked for eight')
      t.match(await login(running, 'gus', 'gus signs in'), { code: 429 })
      t.match(await login(running, 'gus', 'gus signs in', home), { code: 200 })
      t.match(await login(running, 'bob', 'bob signs in'), { code: 200 })
      const { data } = await login(running, 'admin', running.adminPassword)
      const headers = { authorization: (data as { token: string }).token }
      const locked = JSON.parse((await send(running.url, 'GET', '/api/admin/sign-ins', headers)).text) as Envelope
      const rows = locked.data as readonly { readonly kind: string }[]
      t.match(
        rows.filter(({ kind }) => kind === 'directory'),
        [{ username: 'gus', network: null, failures: 8 }],
      )
      await post(running.url, '/api/admin/sign-ins/unlock', { username: 'gus' }, headers.authorization)
      t.match(await login(running, 'gus', 'gus signs in'), { code: 200 })
    })
  })
})

/** A directory that accepts connections and never answers; `release` ends them. */
async function startDead(t: Test): Promise<{ readonly url: string; readonly asked: () => number }> {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => sockets.add(socket.on('error', () => undefined))).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return { url: `ldap://127.0.0.1:${(server.address() as AddressInfo).port}`, asked: () => sockets.size }
}

void t.test('a directory that never answers stops no local user', async (t) => {
  const dead = await startDead(t)
  const running = await start(t, { ldap_server: dead.url })
  await addUser(running, 'local', everyPermission)
  const client = newClient()
  let answered = 0
  const waiting = Array.from({ length: 20 }, async (_, n) => {
    const answer = await login(running, `somebody ${n}`, 'x', n < 8 ? client : newClient())
    answered++
    return answer
  })
  while (dead.asked() === 0) await new Promise((resolve) => setTimeout(resolve, 10))
  t.match(await login(running, 'local', userPassword), { code: 200 })
  t.equal(answered, 0, 'others wait for the directory')
  t.equal((await dav(running, 'local', userPassword)).status, 207)
  await packets(t, running, 'local', userPassword)
  const answers = await Promise.all(waiting)
  t.ok(
    answers.every(({ code }) => code === 500 || code === 429),
    JSON.stringify(answers.map(({ code }) => code)),
  )
  t.match(await login(running, 'local', userPassword, client), { code: 200 }, 'nor is the address of the others locked')

  const [wrong, unknown] = [await login(running, 'local', 'wrong'), await login(running, 'nobody', 'wrong')]
  t.match(wrong, { code: 500, message: /directory/ })
  t.same(wrong, unknown, 'that nothing could be asked does not tell which accounts are here')
  const asked = dead.asked()
  for (let n = 0; n < 3; n++) await login(running, 'nobody', 'wrong')
  t.ok(dead.asked() <= asked + 1, 'it is not asked again at once')

  const { users, identities } = running.gateway.accounts
  const linked = { kind: 'ldap', issuer: `ldap:${suffix}`, subject: 'entryUUID=1', name: 'local' } as const
  await identities.link(users.byName('local')?.id ?? 0, linked)
  const guesser = newClient()
  for (let n = 0; n < 5; n++) t.match(await login(running, 'local', `guess ${n}`, guesser), { code: 500 })
  t.match(await login(running, 'local', userPassword, guesser), { code: 429 }, 'guesses at its password here count')
})

void t.test('without the setting there is no LDAP', async (t) => {
  const running = await start(t, { ldap_login_enabled: 'false', ldap_server: 'ldap://127.0.0.1:1' })
  t.match(await login(running, 'admin', running.adminPassword), { code: 403, message: 'ldap is not enabled' })
  t.match(await login(running, 'nobody', 'x', newClient(), '/api/auth/login'), { code: 400 })
})
