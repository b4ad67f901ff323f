/** People of a real OpenLDAP: encryption, searches, proofs, groups; and servers that do not follow LDAP. */
import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { EgressGuard } from '../../src/net/egress.js'
import { LdapDirectory, plainDn, type DirectorySettings } from '../../src/sign-in/ldap-directory.js'
import { lacks } from '../programs.js'
import { makeCertificate } from '../servers/certificates.js'
import { reader, slapdPrograms, startSlapd, suffix } from '../servers/slapd.js'

const egress = new EgressGuard(() => '127.0.0.0/8')

function settingsOf(url: string, changes: Partial<DirectorySettings> = {}): DirectorySettings {
  return {
    url: new URL(url),
    startTls: false,
    verifiesCertificate: true,
    caFile: '',
    manager: reader,
    base: suffix,
    filter: '(uid=%s)',
    nameAttribute: 'uid',
    groupBase: '',
    nestedGroups: false,
    ...changes,
  }
}

const directoryAt = (url: string, changes?: Partial<DirectorySettings>) =>
  new LdapDirectory(settingsOf(url, changes), egress)

void t.test('with OpenLDAP', { skip: lacks(...slapdPrograms) }, async (t) => {
  const slapd = await startSlapd()
  t.teardown(() => slapd.stop())
  await slapd.addPerson('ann', 'a password of ann')
  await slapd.addPerson('bob', 'a password of bob', { mail: 'bob@example.org' })
  await slapd.addPerson('twin', 'a password of twin', { mail: 'bob@example.org' })
  await slapd.addGroup('staff', ['ann', 'bob'])
  await slapd.addGroup('admins', ['ann'])
  const plain = `ldap://127.0.0.1:${slapd.port}`
  const directory = directoryAt(plain)
  const ann = await directory.prove({ name: 'ann' }, 'a password of ann')
  if (typeof ann !== 'object') throw new Error('ann was not proved')

  await t.test('a password proves the person whose entry the filter finds', async (t) => {
    t.match(ann, { name: 'ann', subject: /^entryUUID=[0-9a-f-]{36}$/ })
    t.same([...ann.groups].sort(), [`cn=admins,ou=groups,${suffix}`, `cn=staff,ou=groups,${suffix}`])
    t.same(await directory.prove({ name: 'ANN' }, 'a password of ann'), ann, 'names ignore the case')
    t.same(await directory.prove({ subject: ann.subject }, 'a password of ann'), ann)
    t.equal(await directory.prove({ name: 'ann' }, 'a password of bob'), undefined)
    t.equal(await directory.prove({ name: 'nobody' }, 'a password of ann'), undefined)
    t.equal(await directory.prove({ name: 'ann' }, ''), undefined, 'an empty password is an anonymous bind')
  })

  await t.test('a name is no part of the filter', async (t) => {
    for (const name of ['*', 'a*', '*)(uid=*', 'ann)(uid=ann', 'ann\\', '\0', '$&', '%s', '(', '\u00e4nn']) {
      t.equal(await directory.prove({ name }, 'a password of ann'), undefined, JSON.stringify(name))
    }
    const name = 'odd (*\\ \u00e4)'
    await slapd.add('cn=odd,ou=people', { objectClass: 'inetOrgPerson', sn: 'odd', uid: name, userPassword: 'x' })
    t.match(await directory.prove({ name }, 'x'), { name })
  })

  await t.test('each %s is the name, and several entries are nobody', async (t) => {
    const byTwo = directoryAt(plain, { filter: '(|(uid=%s)(mail=%s@example.org))' })
    t.match(await byTwo.prove({ name: 'ann' }, 'a password of ann'), { name: 'ann' })
    t.equal(await byTwo.prove({ name: 'bob' }, 'a password of bob'), undefined, 'two people have this address')
    t.match(await byTwo.prove({ subject: ann.subject }, 'a password of ann'), { name: 'ann' })
    const ofOthers = directoryAt(plain, { filter: '(&(uid=%s)(sn=bob))' })
    t.equal(await ofOthers.prove({ name: 'ann' }, 'a password of ann'), undefined)
    t.equal(await ofOthers.prove({ subject: ann.subject }, 'a password of ann'), undefined, 'nor by the identity')
  })

  await t.test('groups are searched by their members', async (t) => {
    await slapd.add('cn=posix,ou=groups', { objectClass: 'device', description: 'no group of ann' })
    const searching = directoryAt(plain, { groupBase: `ou=groups,${suffix}` })
    const found = await searching.prove({ name: 'ann' }, 'a password of ann')
    t.same(found, ann)

    await slapd.addPerson('mallory', 'a password of mallory', { displayName: 'chief' })
    for (const [number, uid] of ['chief', 'mallory'].entries()) {
      const group = { objectClass: 'posixGroup', gidNumber: String(number), memberUid: uid }
      await slapd.add(`cn=of ${uid},ou=groups`, group)
    }
    const byName = directoryAt(plain, { groupBase: `ou=groups,${suffix}`, nameAttribute: 'displayName' })
    const mallory = await byName.find({ name: 'mallory' })
    t.match(mallory, { name: 'chief' })
    t.same([...(mallory?.groups ?? [])], [`cn=of mallory,ou=groups,${suffix}`], 'her uid, and no name that she chose')
  })

  await t.test('groups that a limit of the directory cuts off are not taken for all', async (t) => {
    await slapd.addPerson('many', 'a password of many')
    // OpenLDAP sends 500 entries, unless it is told otherwise.
    for (let number = 0; number < 501; number++) await slapd.addGroup(`group ${number}`, ['many'])
    const searching = directoryAt(plain, { groupBase: `ou=groups,${suffix}` })
    await t.rejects(searching.find({ name: 'many' }), { code: 'invalid', reason: /the directory answers: .*0x4/ })
  })

  await t.test('referrals are not followed', async (t) => {
    let asked = 0
    const other = createServer((socket) => {
      asked++
      socket.destroy()
    }).listen(0, '127.0.0.1')
    await once(other, 'listening')
    t.teardown(() => other.close())
    const { port } = other.address() as AddressInfo
    await slapd.add('ou=elsewhere', {
      objectClass: ['referral', 'extensibleObject'],
      ou: 'elsewhere',
      ref: `ldap://127.0.0.1:${port}/ou=elsewhere,dc=example,dc=com`,
    })
    t.same(await directory.prove({ name: 'ann' }, 'a password of ann'), ann, 'the search continues beside it')
    const away = directoryAt(plain, { base: `ou=elsewhere,${suffix}` })
    await t.rejects(away.prove({ name: 'ann' }, 'a password of ann'), { code: 'invalid' })
    t.equal(asked, 0)
  })

  await t.test('encrypted connections verify the certificate of the host', async (t) => {
    const caFile = slapd.certificate
    for (const host of ['127.0.0.1', 'localhost']) {
      for (const settings of [
        { url: `ldaps://${host}:${slapd.tlsPort}` },
        { url: `ldap://${host}:${slapd.port}`, startTls: true },
      ]) {
        const { url, ...rest } = settings
        const trusting = directoryAt(url, { ...rest, caFile })
        t.match(await trusting.prove({ name: 'ann' }, 'a password of ann'), { name: 'ann' }, url)
        const unknown = { code: 'unavailable', reason: /certificate of the server is not valid/ }
        await t.rejects(directoryAt(url, rest).prove({ name: 'ann' }, 'a password of ann'), unknown)
        const { certificate: other } = await makeCertificate(t.testdir())
        const wrong = directoryAt(url, { ...rest, caFile: other })
        await t.rejects(wrong.prove({ name: 'ann' }, 'a password of ann'), unknown)
        const careless = directoryAt(url, { ...rest, verifiesCertificate: false })
        t.match(await careless.prove({ name: 'ann' }, 'a password of ann'), { name: 'ann' })
      }
    }
    const absent = directoryAt(`ldaps://127.0.0.1:${slapd.tlsPort}`, { caFile: '/nonexistent/ca.pem' })
    await t.rejects(absent.find({ name: 'ann' }), { code: 'unavailable', reason: /cannot be read \(ENOENT\)/ })
  })

  await t.test('what somebody between sends before TLS cannot complete an answer', async (t) => {
    const url = await serverThat(t, (socket, chunk) => {
      socket.removeAllListeners('data')
      const server = connect(slapd.port, '127.0.0.1').on('error', () => undefined)
      server.write(chunk)
      server.once('data', (answer: Buffer) => {
        // The beginning of a response to the next request, which says yes. Its text is what the server answers.
        const yes = Buffer.from([0x30, 0x30, 2, 1, 3, 0x61, 0x2b, 10, 1, 0, 4, 0, 4, 0x24])
        socket.write(Buffer.concat([answer, yes]))
        socket.pipe(server).pipe(socket)
      })
    })
    const directory = directoryAt(url, { startTls: true, caFile: slapd.certificate })
    await t.rejects(directory.find({ name: 'ann' }), { code: 'unavailable', reason: /sent data before TLS/ })
  })

  await t.test('what is wrong with the settings is told to admins', async (t) => {
    const ask = (url: string, changes?: Partial<DirectorySettings>) => directoryAt(url, changes).find({ name: 'ann' })
    const manager = { dn: reader.dn, password: 'wrong' }
    await t.rejects(ask(plain, { manager }), { code: 'invalid', reason: /the directory answers: .*0x31/ })
    await t.rejects(ask(plain, { base: 'dc=none' }), { code: 'invalid', reason: /the directory answers: .*0x20/ })
    await t.rejects(ask(plain, { filter: '(uid=%s' }), { code: 'invalid', reason: /filter/ })
    await t.rejects(ask('ldap://127.0.0.1:1'), { code: 'unavailable', reason: /failed \(ECONNREFUSED\)/ })
    const guarded = new LdapDirectory(settingsOf(plain), new EgressGuard(() => ''))
    const denied = { code: 'unavailable', reason: /a network that is not allowed/ }
    await t.rejects(guarded.find({ name: 'ann' }), denied)
    const named = new LdapDirectory(settingsOf(`ldap://localhost:${slapd.port}`), new EgressGuard(() => ''))
    await t.rejects(named.find({ name: 'ann' }), denied)
  })

  await t.test('a look-up needs no password, and tells who is gone', async (t) => {
    const bob = await directory.find({ name: 'bob' })
    if (bob === undefined) throw new Error('bob was not found')
    await slapd.addPerson('eve', 'a password of eve')
    const eve = await directory.find({ name: 'eve' })
    if (eve === undefined) throw new Error('eve was not found')
    await slapd.remove('uid=eve,ou=people')
    t.same(await directory.lookUp(bob.subject), bob)
    t.equal(await directory.lookUp(eve.subject), undefined)
  })

  await t.test('it is reached if it answers the one who searches, whatever comes of the search', async (t) => {
    const searches = { base: 'dc=none' }
    const cases: readonly (readonly [string, Partial<DirectorySettings>, boolean])[] = [
      ['a manager', searches, true],
      ['nobody', { ...searches, manager: { dn: '', password: '' } }, true],
      ['a manager with a wrong password', { manager: { dn: reader.dn, password: 'wrong' } }, false],
    ]
    for (const [name, changes, isReached] of cases) {
      const asked = directoryAt(plain, changes)
      await t.rejects(asked.find({ name: 'ann' }), { code: 'invalid' }, name)
      t.equal(asked.isReached, isReached, name)
    }
  })
})

/** A server that answers each chunk of each client by `answer`. Resolves to its URL. */
async function serverThat(t: Test, answer: (socket: Socket, chunk: Buffer) => void): Promise<string> {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => undefined).on('data', (chunk: Buffer) => answer(socket, chunk))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return `ldap://127.0.0.1:${(server.address() as AddressInfo).port}`
}

/** An element of BER. */
function element(tag: number, ...contents: readonly (Buffer | string | number)[]): Buffer {
  const bytes = Buffer.concat(
    contents.map((each) => (typeof each === 'number' ? Buffer.from([each]) : Buffer.from(each))),
  )
  const header = Buffer.from([tag, 0x84, 0, 0, 0, 0])
  header.writeUInt32BE(bytes.length, 2)
  return Buffer.concat([header, bytes])
}

const message = (id: number, operation: Buffer, ...others: readonly Buffer[]) =>
  element(0x30, element(2, id), operation, ...others)
const result = (tag: number, code: number, text = '') => element(tag, element(10, code), element(4), element(4, text))
/** The id of the request that a chunk begins with. */
const idOf = (chunk: Buffer) => chunk[chunk.indexOf(2) + 2] ?? 0
const isBind = (chunk: Buffer) => chunk.includes(0x60) && chunk.indexOf(0x60) < 8

void t.test('a server that accepts connections and never answers takes five seconds', async (t) => {
  const started = performance.now()
  const url = await serverThat(t, () => undefined)
  const asked = [reader, { dn: '', password: '' }].map(async (manager) => {
    const directory = directoryAt(url, { manager })
    await t.rejects(directory.prove({ name: 'ann' }, 'x'), { code: 'timeout' })
    t.equal(directory.isReached, false)
  })
  await Promise.all(asked)
  t.ok(performance.now() - started < 20_000)
})

void t.test('messages that are none of LDAP end the connection', async (t) => {
  const entry = (...attributes: readonly Buffer[]) => element(0x64, element(4, 'uid=ann'), element(0x30, ...attributes))
  const hostile: Readonly<Record<string, (id: number) => Buffer>> = {
    'an entry without attributes': (id) => message(id, element(0x64, element(4, 'a'))),
    'an attribute without values': (id) => message(id, entry(element(0x30, element(4, 'uid')))),
    'a value longer than its set': (id) =>
      message(id, entry(element(0x30, element(4, 'uid'), element(0x31, 4, 0x7f, 'a')))),
    'a value of another kind': (id) =>
      message(id, entry(element(0x30, element(4, 'uid'), element(0x31, element(2, 1))))),
    'a response without a code': (id) => message(id, element(0x61)),
    'a referral longer than the response': (id) =>
      message(id, element(0x61, element(10, 0), element(4), element(4), 0xa3, 0x7f)),
    'an operation that no server sends': (id) => message(id, element(0x60, element(4))),
    'an indefinite length': () => Buffer.from([0x30, 0x80, 2, 1, 2, 0, 0]),
    'a length of five bytes': () => Buffer.from([0x30, 0x85, 0, 0, 0, 0, 9, 2, 1, 2]),
    HTTP: () => Buffer.from('HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n'),
    'a message of 2 MiB': (id) => message(id, result(0x61, 0, 'x'.repeat(2 * 1024 * 1024))),
    'messages without end': () => Buffer.concat(Array<Buffer>(200_000).fill(Buffer.from([0x30, 5, 2, 1, 9, 0x61, 0]))),
  }
  for (const [name, answer] of Object.entries(hostile)) {
    const url = await serverThat(t, (socket, chunk) => void socket.write(answer(idOf(chunk))))
    await t.rejects(directoryAt(url).prove({ name: 'ann' }, 'x'), { code: 'unavailable' }, name)
  }
})

void t.test('Active Directory says why a right password is refused', async (t) => {
  const sid = Buffer.from('efbbbf00112233445566778899aabbcc', 'hex')
  const answers = (data: string) =>
    serverThat(t, (socket, chunk) => {
      const id = idOf(chunk)
      const isUser = chunk.includes('uid=ann')
      if (isBind(chunk)) {
        const text = `80090308: LdapErr: DSID-0C090439, comment: AcceptSecurityContext error, data ${data}, v4563\0`
        socket.write(message(id, isUser ? result(0x61, 49, text) : result(0x61, 0)))
      } else {
        const guid = element(0x30, element(4, 'objectGUID'), element(0x31, element(4, sid)))
        const control = element(0xa0, element(0x30, element(4, '1.2.3')))
        const found = message(id, element(0x64, element(4, 'uid=ann'), element(0x30, guid)), control)
        socket.write(Buffer.concat([found, message(id, result(0x65, 0))]))
      }
    })
  for (const [data, outcome] of Object.entries({
    '533': 'account_disabled',
    '701': 'account_expired',
    '52e': undefined,
  })) {
    t.equal(await directoryAt(await answers(data)).prove({ name: 'ann' }, 'x'), outcome, data)
  }
  const found = await directoryAt(await answers('52e')).find({ name: 'ann' })
  t.match(found, { subject: `objectGUID=${sid.toString('hex')}`, name: '' })
})

void t.test('spellings of one DN are compared as one', async (t) => {
  t.equal(plainDn(' CN=Staff , OU = Groups,dc=Example,DC=org '), 'cn=staff,ou=groups,dc=example,dc=org')
  t.equal(plainDn('cn=a\\, b,dc=x'), 'cn=a\\, b,dc=x')
  t.not(plainDn('cn=a\\, b,dc=x'), plainDn('cn=a,b,dc=x'))
})

void t.test('more groups than Active Directory sends at once are asked for in parts', async (t) => {
  const set = (name: string, ...values: readonly string[]) =>
    element(0x30, element(4, name), element(0x31, ...values.map((value) => element(4, value))))
  const parts: Record<string, Buffer> = {
    '': set('memberOf;range=0-1', 'CN=a', 'CN=b'),
    '2-*': set('memberOf;Range=2-2', 'CN=c'),
    '3-*': set('memberOf;range=3-*', 'CN=d'),
  }
  let lastBound = ''
  let missing = 'nothing'
  const url = await serverThat(t, (socket, chunk) => {
    const id = idOf(chunk)
    if (isBind(chunk)) {
      lastBound = chunk.includes('uid=ann') ? 'ann' : 'reader'
      socket.write(message(id, result(0x61, 0)))
      return
    }
    const asked = /memberOf;range=(\d+-\*)/.exec(chunk.toString('latin1'))?.[1] ?? ''
    t.equal(lastBound, 'reader', 'the user may not be allowed to search')
    const attributes = asked === missing ? [] : [parts[asked] ?? Buffer.alloc(0)]
    const entry = element(
      0x64,
      element(4, 'uid=ann'),
      element(0x30, set('entryUUID', '1'), set('memberOf'), ...attributes),
    )
    socket.write(Buffer.concat([message(id, entry), message(id, result(0x65, 0))]))
  })
  const proved = await directoryAt(url).prove({ name: 'ann' }, 'x')
  if (typeof proved !== 'object') throw new Error('ann was not proved')
  t.same([...proved.groups], ['cn=a', 'cn=b', 'cn=c', 'cn=d'])
  missing = '3-*'
  const incomplete = { code: 'invalid', reason: /all groups/ }
  await t.rejects(directoryAt(url).find({ name: 'ann' }), incomplete)
  parts['2-*'] = set('memberOf;range=0-1', 'CN=a', 'CN=b')
  await t.rejects(directoryAt(url).find({ name: 'ann' }), incomplete, 'a part that it has sent before')
})
