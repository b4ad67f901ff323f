/** Passwords that a directory checks: when it is asked, what is counted and what is remembered. */
import t from 'tap'
import type { PasswordDirectory } from '../../src/accounts/password-directory.js'
import { FairQueue } from '../../src/accounts/fair-queue.js'
import { GatewayError } from '../../src/base/errors.js'
import type { UserRow } from '../../src/database/tables/accounts.js'
import { adaPassword, credentials, fixture, newUser } from './accounts-fixture.js'
import '../fast-hashes.js'

const webdav = { name: 'webdav', appPasswords: true, permissions: {} } as never

const wrong = { code: 'unauthenticated', detail: 'wrong_credentials' }
const silent = { code: 'unavailable', detail: 'directory_silent' }
const throttled = { code: 'throttled', detail: 'sign_in_throttled' }

/** A directory that knows the password `there` of everybody, as that of `user`. */
function directoryOf(user: () => UserRow | undefined) {
  const asked: string[] = []
  const compared: string[] = []
  const directory = {
    isOn: true as boolean,
    refusalTime: 0,
    /** Called before each answer. */
    before: async (): Promise<void> => undefined,
    /** By the subject of the person, or by the name. */
    subject: undefined as string | undefined,
    check: async (...[name, password, , guess]: Parameters<PasswordDirectory['check']>) => {
      asked.push(`${name} ${password}`)
      await directory.before()
      await guess(directory.subject)
      compared.push(password)
      return password === 'there' ? user() : undefined
    },
  } satisfies PasswordDirectory & Record<string, unknown>
  return { directory, asked, compared }
}

void t.test('a directory is asked for passwords that no account here has', async (t) => {
  const { accounts, ada } = await fixture(t)
  const { directory, asked } = directoryOf(() => ada)
  accounts.useDirectory(directory)
  await accounts.signIn.issueToken(credentials())
  t.same(asked, [], 'this one is here')
  await accounts.signIn.issueToken(credentials({ username: 'ADA', plain: 'there' }))
  await t.rejects(accounts.signIn.issueToken(credentials({ username: 'ADA', plain: 'x' })), wrong)
  t.same(asked, ['ADA there', 'ADA x'])
  const unasked = [
    credentials({ username: 'ADA', plain: '' }),
    { ...credentials({ username: 'ADA' }), password: { hash: 'a'.repeat(64) } },
    credentials({ username: 'x'.repeat(256), plain: 'there' }),
    credentials({ username: 'a\0b', plain: 'there' }),
  ]
  for (const each of unasked) await t.rejects(accounts.signIn.issueToken(each), wrong)
  directory.isOn = false
  await t.rejects(accounts.signIn.issueToken(credentials({ username: 'ADA', plain: 'there' })))
  t.equal(asked.length, 2)
})

void t.test('the word of a directory is remembered for a minute, whether it is used or not', async (t) => {
  const { accounts, ada, clock } = await fixture(t)
  const { directory, asked } = directoryOf(() => accounts.users.get(ada.id))
  accounts.useDirectory(directory)
  const sent = credentials({ username: 'ADA', plain: 'there' })
  for (const seconds of [0, 25, 25]) {
    clock.time += seconds * 1000
    t.match(await accounts.signIn.byPassword({ ...sent }, webdav), { username: 'ada' })
  }
  t.equal(asked.length, 1)
  clock.time += 11_000
  await accounts.signIn.byPassword({ ...sent }, webdav)
  t.equal(asked.length, 2)
  await accounts.users.update(ada.id, { basePath: '/elsewhere' })
  await accounts.signIn.byPassword({ ...sent }, webdav)
  t.equal(asked.length, 3, 'the account has changed')
})

void t.test('failures count before the directory is asked, and not if it does not answer', async (t) => {
  const { accounts, ada } = await fixture(t)
  const { directory, asked } = directoryOf(() => ada)
  accounts.useDirectory(directory)
  const address = '198.51.100.1'
  const guess = (n: number) =>
    accounts.signIn.issueToken(credentials({ username: 'ADA', plain: `guess ${n}`, address }))
  const guesses = await Promise.allSettled(Array.from({ length: 12 }, (_, n) => guess(n)))
  const details = guesses.map((each) =>
    each.status === 'rejected' ? (each.reason as GatewayError).detail : 'signed in',
  )
  t.equal(details.filter((detail) => detail === 'wrong_credentials').length, 5)
  t.equal(details.filter((detail) => detail === 'sign_in_throttled').length, 7)
  t.equal(asked.length, 5)

  directory.before = () => Promise.reject(new GatewayError('unavailable', { detail: 'directory_silent' }))
  const elsewhere = '198.51.100.2'
  for (let n = 0; n < 7; n++) {
    const sent = credentials({ username: 'ADA', plain: 'x', address: elsewhere })
    await t.rejects(accounts.signIn.issueToken(sent), silent)
  }
  await accounts.signIn.issueToken(credentials({ address: elsewhere }))
  for (let n = 0; n < 5; n++) {
    const sent = credentials({ plain: 'x', address: elsewhere })
    await t.rejects(accounts.signIn.issueToken(sent), silent)
  }
  const locked = accounts.signIn.issueToken(credentials({ address: elsewhere }))
  await t.rejects(locked, throttled, 'the password of ada was compared here')
})

void t.test('while the directory is silent, only guesses at a password that is here count', async (t) => {
  const { accounts, ada } = await fixture(t)
  const { directory } = directoryOf(() => undefined)
  accounts.useDirectory(directory)
  const { identities, users } = accounts
  const shown = (name: string) => ({ kind: 'ldap', issuer: 'ldap:dc=x', subject: `entryUUID=${name}`, name }) as const
  await identities.link(ada.id, shown('ada'))
  const { password: _none, ...fields } = newUser({ username: 'eve' })
  await users.create({ ...fields, identity: identities.newRow(shown('eve'), true) })
  directory.before = () => Promise.reject(new GatewayError('unavailable', { detail: 'directory_silent' }))
  const outcome = async (username: string, address: string) => {
    for (let n = 0; n < 5; n++) {
      await t.rejects(accounts.signIn.issueToken(credentials({ username, plain: `guess ${n}`, address })), silent)
    }
    return accounts.signIn.issueToken(credentials({ username, plain: 'x', address }))
  }
  await t.rejects(outcome('ada', '198.51.100.5'), throttled, 'ada is linked, and has a password')
  await t.rejects(outcome('eve', '198.51.100.6'), silent, 'eve was made by a sign-in, and has none')

  directory.before = () => Promise.reject(new GatewayError('denied', { detail: 'account_disabled' }))
  for (let n = 0; n < 6; n++) {
    const sent = credentials({ plain: 'there', address: '198.51.100.7' })
    await t.rejects(accounts.signIn.issueToken(sent), { code: 'denied' }, 'a right password is no guess')
  }
})

void t.test('names that differ in case only are counted together', async (t) => {
  const { accounts, ada } = await fixture(t)
  const { directory, asked } = directoryOf(() => ada)
  accounts.useDirectory(directory)
  const address = '198.51.100.4'
  const names = ['ADA', 'Ada', 'aDA', 'adA', 'ADa']
  for (const username of names) {
    await t.rejects(accounts.signIn.issueToken(credentials({ username, plain: 'x', address })), wrong)
  }
  const locked = await accounts.lockedSignIns.list()
  t.match(locked, [{ kind: 'address' }, { kind: 'pair', username: 'ada' }])
  t.equal(asked.length, names.length)
})

void t.test('strangers have eight guesses at a person of the directory, from all networks together', async (t) => {
  const { accounts, ada, clock } = await fixture(t)
  const { directory, asked, compared } = directoryOf(() => ada)
  accounts.useDirectory(directory)
  let networks = 0
  const from = () => `203.0.113.${++networks}`
  const guess = (username: string, plain = 'x', address = from()) =>
    accounts.signIn.issueToken(credentials({ username, plain, address }))
  await guess('Gus', 'there', '192.0.2.1')
  const spellings = ['gus', ' GUS', 'g­us', 'ｇus', 'gu​s ', 'GUS', 'Gus', 'guS']
  for (const username of spellings) await t.rejects(guess(username), wrong)
  for (const username of spellings) await t.rejects(guess(username), throttled, JSON.stringify(username))
  await t.rejects(guess('gus', 'there'), throttled, 'no password is compared')
  t.equal(compared.length, 9)
  await t.rejects(guess('gus', 'x', '192.0.2.1'), wrong, 'whence it has signed in, its own limit holds')
  await guess('gus', 'there', '192.0.2.1')
  await t.rejects(guess('hal'), wrong, 'others are asked for')

  directory.subject = 'entryUUID=1'
  for (let n = 0; n < 8; n++) await t.rejects(guess(`name ${n}`), wrong, 'several names of one person')
  await t.rejects(guess('name 8'), throttled)
  const address = from()
  for (let n = 0; n < 5; n++) await t.rejects(guess('name 9', `${n}`, address), throttled)
  await guess('ada', adaPassword, address)
  const searches = asked.length
  directory.subject = 'entryUUID=2'
  await t.rejects(guess('name 9', 'there', address), throttled, 'the pair is locked')
  t.equal(asked.length, searches)
  clock.time += 15 * 60_000
  directory.subject = 'entryUUID=1'
  await guess('name 9', 'there', address)
})

void t.test('an admin unlocks an account for every spelling of its name', async (t) => {
  const { accounts, ada } = await fixture(t)
  const { directory } = directoryOf(() => undefined)
  accounts.useDirectory(directory)
  const { users, identities, lockedSignIns } = accounts
  const { id } = await users.create(newUser({ username: 'Gus' }))
  const shown = { kind: 'ldap', issuer: 'ldap:dc=x', subject: 'entryUUID=7', name: 'gus' } as const
  await identities.link(id, shown)
  directory.subject = shown.subject
  const address = '198.51.100.8'
  for (let n = 0; n < 8; n++) {
    const from = n < 5 ? address : '198.51.100.9'
    await t.rejects(accounts.signIn.issueToken(credentials({ username: 'gus', plain: `${n}`, address: from })), wrong)
  }
  const locked = await lockedSignIns.list()
  t.match(
    locked.find(({ kind }) => kind === 'directory'),
    { username: 'Gus', network: undefined, failures: 8 },
  )
  await lockedSignIns.unlockUser('Gus')
  t.match(await lockedSignIns.list(), [{ kind: 'address' }])
  directory.check = async () => ada
  await lockedSignIns.unlockNetwork(address)
  await accounts.signIn.issueToken(credentials({ username: 'gus', plain: 'there', address }))
})

void t.test('whoever waits for the directory keeps nobody from a comparison here', async (t) => {
  const { accounts, ada } = await fixture(t)
  const { directory, asked } = directoryOf(() => ada)
  accounts.useDirectory(directory)
  let release: () => void = () => undefined
  const released = new Promise<void>((resolve) => (release = resolve))
  directory.before = () => released
  const address = '198.51.100.3'
  let settled = 0
  const waiting = Array.from({ length: 8 }, async (_, n) => {
    const sent = credentials({ username: `x${n}`, plain: 'x', address })
    await accounts.signIn.issueToken(sent).catch(() => settled++)
  })
  while (asked.length < 5) await new Promise((resolve) => setImmediate(resolve))
  await accounts.signIn.issueToken(credentials({ plain: adaPassword }))
  t.equal(settled, 0)
  release()
  await Promise.all(waiting)
})

void t.test('a queue of several places runs as many jobs at once', async (t) => {
  const queue = new FairQueue(undefined, 2)
  const ends: (() => void)[] = []
  const job = () => queue.run({ party: { network: 'a' } }, () => new Promise<void>((resolve) => ends.push(resolve)))
  const jobs = [job(), job(), job()]
  await new Promise((resolve) => setImmediate(resolve))
  t.equal(ends.length, 2)
  ends[0]?.()
  await jobs[0]
  await new Promise((resolve) => setImmediate(resolve))
  t.equal(ends.length, 3)
  for (const end of ends) end()
  await Promise.all(jobs)
})
