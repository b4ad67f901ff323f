/** The limits for failed sign-ins, by address and by account, and for wrong codes; the verification of passwords. */
import { generateSync } from 'otplib'
import { setTimeout as wait } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { FairQueue, type Requester } from '../../src/accounts/fair-queue.js'
import {
  limitersInMemory,
  sharedLimiters,
  type Limiters as OpenLimiters,
  type SignInLimiter,
} from '../../src/accounts/limiter.js'
import { newOtpSecret } from '../../src/accounts/otp.js'
import { PasswordCheck } from '../../src/accounts/password-check.js'
import { hashPassword, impossiblePassword, isPassword, staticHash } from '../../src/accounts/passwords.js'
import { sharedController } from '../../src/base/cancellation.js'
import type { GatewayError } from '../../src/base/errors.js'
import { networkOf } from '../../src/net/addresses.js'
import { openStore } from '../../src/database/store.js'
import { processorTime } from '../processor-time.js'
import { lacks } from '../programs.js'
import { engines, thisServer } from '../database/engines.js'
import { userRow } from '../database/store-rows.js'
import { until } from '../until.js'
import { adaPassword, credentials, fixture, newUser, openAccounts } from './accounts-fixture.js'
import { webdav } from '../../protocols/webdav/index.js'
import { sftp } from '../../protocols/sftp/index.js'

const wrong = { code: 'unauthenticated', detail: 'wrong_credentials' }
const throttled = {
  code: 'throttled',
  detail: 'sign_in_throttled',
}
const minute = 60_000

const limiterInMemory = (now: () => number) => limitersInMemory(now).signIns

void t.test('failures are counted by IPv4 address or by IPv6 /64 network', async (t) => {
  for (const [address, network] of [
    ['192.0.2.7', '192.0.2.7'],
    ['::ffff:192.0.2.7', '192.0.2.7'],
    ['::FFFF:192.0.2.7', '192.0.2.7'],
    ['::ffff:c000:207', '192.0.2.7'],
    ['0:0:0:0:0:ffff:c000:0207', '192.0.2.7'],
    ['2001:db8:1:2::ffff:7', '2001:db8:1:2::/64'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:0DB8:0001:0002::1', '2001:db8:1:2::/64'],
    ['2001:db8::1', '2001:db8:0:0::/64'],
    ['2001:db8::2:3:4:5:6', '2001:db8:0:2::/64'],
    ['fe80::1%eth0', 'fe80:0:0:0::/64'],
    ['::1', '0:0:0:0::/64'],
    ['1:2:3:4:5:6:192.0.2.7', '1:2:3:4::/64'],
    ['1::192.0.2.7', '1:0:0:0::/64'],
    ['', ''],
  ] as const) {
    t.equal(networkOf(address), network, address)
  }
})

void t.test('five failures lock an address for five minutes, for every account and protocol', async (t) => {
  const { accounts, clock } = await fixture(t)
  await accounts.users.create(newUser({ username: 'bob' }))
  const address = '198.51.100.1'
  await t.rejects(accounts.signIn.issueToken(credentials({ address, username: 'nobody' })), wrong)
  await t.rejects(accounts.signIn.byPassword(credentials({ address, plain: 'x' }), webdav), wrong)
  await accounts.signIn.issueToken(credentials({ address }))
  await t.rejects(accounts.signIn.byPassword(credentials({ address, plain: 'y' }), sftp), wrong)
  await t.rejects(accounts.signIn.issueToken(credentials({ address, plain: 'z' })), wrong)
  clock.time += minute
  await t.rejects(accounts.signIn.issueToken(credentials({ address, plain: 'w' })), wrong)
  await t.rejects(
    accounts.signIn.issueToken(credentials({ address })),
    { ...throttled, retryAfter: 300 },
    'the right password is rejected, too',
  )
  await t.rejects(accounts.signIn.byPassword(credentials({ address, username: 'bob' }), webdav), throttled)
  await accounts.signIn.issueToken(credentials())
  clock.time += 5 * minute - 1000
  await t.rejects(accounts.signIn.issueToken(credentials({ address })), throttled)
  clock.time += 1000
  await accounts.signIn.issueToken(credentials({ address }))
  await t.rejects(accounts.signIn.issueToken(credentials({ address, plain: 'x' })), wrong, 'the count starts again')
})

void t.test('concurrent sign-ins are counted like sequential ones', async (t) => {
  const { accounts } = await fixture(t)
  const address = '198.51.100.2'
  const tries = Array.from({ length: 12 }, (_, n) =>
    accounts.signIn.issueToken(credentials({ address, plain: `guess ${n}` })),
  )
  const outcomes = await Promise.allSettled(tries)
  const reasons = outcomes.map((outcome) =>
    outcome.status === 'rejected' ? (outcome.reason as { code: string }).code : '',
  )
  t.same(reasons, [...Array<string>(5).fill('unauthenticated'), ...Array<string>(7).fill('throttled')])
})

void t.test(
  'a client that signed in before its address was locked stays signed in, but cannot try other passwords',
  async (t) => {
    const { accounts } = await fixture(t)
    const address = '198.51.100.3'
    await accounts.signIn.byPassword(credentials({ address }), webdav)
    for (let n = 0; n < 5; n++) {
      await t.rejects(accounts.signIn.issueToken(credentials({ address, username: `nobody ${n}` })), wrong)
    }
    await accounts.signIn.byPassword(credentials({ address }), webdav)
    await t.rejects(accounts.signIn.issueToken(credentials({ address })), throttled)
    for (let n = 0; n < 5; n++) {
      await t.rejects(accounts.signIn.byPassword(credentials({ address, plain: `guess ${n}` }), webdav), throttled)
    }
    await t.rejects(
      accounts.signIn.byPassword(credentials({ address }), webdav),
      throttled,
      'passwords are no longer compared',
    )
  },
)

void t.test('a missing code is not counted as a failure, a wrong one is', async (t) => {
  const { accounts, ada } = await fixture(t)
  await accounts.users.update(ada.id, { otpSecret: newOtpSecret() })
  const address = '198.51.100.4'
  const asked = { code: 'unauthenticated', detail: 'code_required' }
  for (let n = 0; n < 7; n++) await t.rejects(accounts.signIn.issueToken(credentials({ address })), asked)
  for (let n = 0; n < 5; n++) await t.rejects(accounts.signIn.issueToken(credentials({ address, code: 'x' })), asked)
  await t.rejects(accounts.signIn.issueToken(credentials({ address })), throttled)
})

/** The right code of the secret at this time, and a wrong one that is not valid in the minutes around it. */
function codesOf(secret: string, time: number): { readonly right: string; readonly wrong: string } {
  const at = (offset: number) => generateSync({ secret, epoch: time / 1000 + offset })
  const near = [-60, -30, 0, 30, 60].map(at)
  const wrong = ['000000', '111111', '222222', '333333', '444444', '555555'].find((code) => !near.includes(code))
  return { right: at(0), wrong: wrong ?? '' }
}

void t.test('of concurrent wrong codes from many addresses, ten are compared', async (t) => {
  const { accounts, ada, clock } = await fixture(t)
  const secret = newOtpSecret()
  await accounts.users.update(ada.id, { otpSecret: secret })
  const home = '198.51.100.5'
  await accounts.signIn.issueToken(credentials({ address: home, code: codesOf(secret, clock.time).right }))

  clock.time += minute
  const { wrong } = codesOf(secret, clock.time)
  const tries = Array.from({ length: 13 }, () => accounts.signIn.issueToken(credentials({ code: wrong })))
  const outcomes = await Promise.allSettled(tries)
  const reasons = outcomes.map((outcome) =>
    outcome.status === 'rejected' ? (outcome.reason as { code: string }).code : '',
  )
  t.same(reasons, [...Array<string>(10).fill('unauthenticated'), ...Array<string>(3).fill('throttled')])

  const right = () => codesOf(secret, clock.time).right
  await t.rejects(accounts.signIn.issueToken(credentials({ code: right() })), { ...throttled, retryAfter: 900 })
  await t.rejects(
    accounts.signIn.byPassword(credentials({ code: right() }), sftp),
    throttled,
    'every protocol is throttled',
  )
  await accounts.signIn.issueToken(credentials({ address: home, code: right() }))
  await accounts.users.create(newUser({ username: 'bob' }))
  await accounts.signIn.issueToken(credentials({ username: 'bob' }))
  clock.time += 15 * minute
  await accounts.signIn.issueToken(credentials({ code: right() }))
})

void t.test('codes of concurrent sign-ins with the same password are counted one by one', async (t) => {
  const { accounts, ada, clock } = await fixture(t)
  const secret = newOtpSecret()
  await accounts.users.update(ada.id, { otpSecret: secret })
  const address = '198.51.100.6'
  const { wrong, right } = codesOf(secret, clock.time)
  const codes = [...Array<string>(20).fill(wrong), right]
  const outcomes = await Promise.allSettled(
    codes.map((code) => accounts.signIn.issueToken(credentials({ address, code }))),
  )
  const reasons = outcomes.map((outcome) =>
    outcome.status === 'rejected' ? (outcome.reason as { code: string }).code : 'signed in',
  )
  t.same(reasons, [...Array<string>(5).fill('unauthenticated'), ...Array<string>(16).fill('throttled')])
})

void t.test(
  'recovery codes are counted like one-time codes, and each lets one of many concurrent sign-ins in',
  async (t) => {
    const { accounts, ada, clock } = await fixture(t)
    const user = await accounts.users.update(ada.id, { otpSecret: newOtpSecret() })
    const [code = '', other = ''] = await accounts.recoveryCodes.renew(user)
    const { wrong } = codesOf(user.otpSecret, clock.time)
    const address = '198.51.100.11'
    const tries = Array.from({ length: 5 }, () => accounts.signIn.issueToken(credentials({ code, address })))
    const outcomes = await Promise.allSettled(tries)
    t.equal(outcomes.filter(({ status }) => status === 'fulfilled').length, 1)
    const refused = { code: 'unauthenticated', detail: 'code_required' }
    for (const bad of [code, 'x'.repeat(65_536), `${other}a`, wrong, wrong, wrong]) {
      await t.rejects(accounts.signIn.issueToken(credentials({ code: bad })), refused)
    }
    await t.rejects(accounts.signIn.issueToken(credentials({ code: other })), throttled, 'ten wrong codes')
    t.equal(await accounts.recoveryCodes.count(ada.id), 9, 'a code that is refused is not used')
  },
)

void t.test('the password that new recovery codes require is limited like that of a sign-in', async (t) => {
  const { accounts, ada, warnings } = await fixture(t)
  await accounts.users.update(ada.id, { otpSecret: newOtpSecret() })
  const renew = (plain: string) =>
    accounts.twoStep.renewRecoveryCodes(ada.id, { password: { plain }, address: '198.51.100.8' })
  for (let n = 0; n < 5; n++) await t.rejects(renew('wrong'), { code: 'unauthenticated', detail: 'wrong_credentials' })
  t.equal(warnings.length, 5)
  await t.rejects(renew(adaPassword), throttled)
  t.equal(await accounts.recoveryCodes.count(ada.id), 0)
})

void t.test('wrong codes while two-step verification is enabled are counted like those of sign-ins', async (t) => {
  const { accounts, ada, clock } = await fixture(t)
  const secret = newOtpSecret()
  const { wrong, right } = codesOf(secret, clock.time)
  const turnOn = (code: string) =>
    accounts.twoStep.enable(ada.id, { secret, code, currentCode: '', address: '198.51.100.7' })
  for (let n = 0; n < 10; n++) await t.rejects(turnOn(wrong), { code: 'invalid', detail: 'code_required' })
  await t.rejects(turnOn(right), throttled)
  t.equal(accounts.users.get(ada.id)?.otpSecret, '')
  clock.time += 15 * minute
  await turnOn(codesOf(secret, clock.time).right)
})

void t.test('of the throttled sign-ins of a network, one in five minutes is logged', async (t) => {
  const { accounts, clock, warnings } = await fixture(t)
  const address = '198.51.100.9'
  const fail = async (count: number) => {
    for (let n = 0; n < count; n++) {
      await t.rejects(accounts.signIn.issueToken(credentials({ address, username: `nobody ${n}`, plain: 'x' })))
    }
  }
  await fail(20)
  const line = { protocol: 'http', address, account: undefined }
  t.match(warnings, [...Array<object>(5).fill({ ...line, reason: /^wrong/ }), { ...line, reason: /^too many/ }])
  t.equal(warnings.length, 6)
  for (let n = 0; n < 6; n++) {
    await t.rejects(accounts.signIn.byPassword(credentials({ address: '198.51.100.10', plain: 'x' }), webdav))
  }
  t.match(warnings.at(-1), { address: '198.51.100.10', account: 'ada', reason: /^too many/ })
  clock.time += 5 * minute
  await fail(7)
  t.match(warnings.at(-1), { ...line, reason: /^too many/, suppressed: 14 })
  t.equal(warnings.length, 18)
})

void t.test(
  'names that one address makes up do not unlock accounts for others, and only many of them for itself',
  async (t) => {
    const signIns = limiterInMemory(() => 0)
    const lock = async (address: string, name: string) => {
      for (let n = 0; n < 5; n++) await (await signIns.begin(address, `${name}${n}`))('failed')
      for (let n = 0; n < 5; n++) await t.rejects(signIns.admit(address, name), throttled)
    }
    await lock('home', 'ada')
    await lock('flood', 'ada')
    const attempt = async (name: string) => {
      try {
        await signIns.admit('flood', name)
        t.fail('the address is locked')
      } catch {
        // The attempt is counted.
      }
    }
    // The stacks of three hundred thousand errors would take longer than all else.
    const { stackTraceLimit } = Error
    t.teardown(() => (Error.stackTraceLimit = stackTraceLimit))
    Error.stackTraceLimit = 0
    for (let n = 0; n < 50_001; n++) await attempt(`once ${n}`)
    t.throws(() => signIns.assertPairNotLocked('home', 'ada'), throttled)
    t.throws(() => signIns.assertPairNotLocked('flood', 'ada'), throttled)
    for (let n = 0; n < 50_001; n++) for (let tries = 0; tries < 5; tries++) await attempt(`often ${n}`)
    t.throws(() => signIns.assertPairNotLocked('home', 'ada'), throttled)
    signIns.assertPairNotLocked('flood', 'ada')
    t.throws(() => signIns.assertPairNotLocked('flood', 'often 50000'), throttled)
  },
)

/** The limiters of one process, or of a node. */
interface Limiters extends Omit<OpenLimiters, 'sweep'> {
  readonly advance: (milliseconds: number) => Promise<void>
}

const inMemory = async (): Promise<Limiters> => {
  let time = 0
  const now = () => time
  return {
    ...limitersInMemory(now),
    advance: async (milliseconds) => void (time += milliseconds),
  }
}

const inDatabase = (engine: (typeof engines)[number]) => async (t: Test) => {
  const location = await engine.newDatabase(t)
  const store = await openStore(location)
  t.teardown(() => store.close())
  return {
    ...sharedLimiters(store.signIns),
    // Everything becomes older.
    advance: async (milliseconds: number) => {
      await engine.query(location, `update sign_ins set time = time - ${milliseconds}`)
    },
  }
}

const limiters = [
  { name: 'in memory', skip: false, open: inMemory },
  ...engines.map((engine) => ({ name: `on ${engine.name}`, skip: engine.skip, open: inDatabase(engine) })),
]

/** Seconds after which a throttled client may try again, in tenths of a minute. */
async function retryTime(t: Test, attempt: Promise<unknown>): Promise<number> {
  const error: unknown = await attempt.catch((reason: unknown) => reason)
  t.match(error, throttled)
  return Math.round(((error as GatewayError).retryAfter ?? 0) / 6) * 6
}

for (const { name, skip, open } of limiters) {
  void t.test(`limits ${name}`, { skip }, async (s) => {
    void s.test('a right code is not counted, and keeps its address from being throttled for a day', async (t) => {
      const { codes, advance } = await open(t)
      for (let n = 0; n < 50; n++) await (await codes.countAttempt(1, 'home'))()
      for (let n = 0; n < 10; n++) {
        await codes.countAttempt(1, `bot ${n}`)
        await advance(minute)
      }
      t.equal(await retryTime(t, codes.countAttempt(1, 'stranger')), 300)
      await codes.countAttempt(2, 'stranger')
      await codes.countAttempt(1, 'home')
      await advance(5 * minute)
      await t.rejects(codes.countAttempt(1, 'stranger'), throttled, 'a wrong code from a familiar address counts')
      await advance(minute)
      await codes.countAttempt(1, 'stranger')
      await advance(24 * 60 * minute)
      for (let n = 0; n < 10; n++) await codes.countAttempt(1, `bot ${n}`)
      await t.rejects(codes.countAttempt(1, 'home'), throttled)
    })

    void s.test('five failures lock an address, and each attempt then counts for its account', async (t) => {
      const { signIns, advance } = await open(t)
      const fail = async (account: string) => (await signIns.begin('home', account))('failed')
      for (let n = 0; n < 5; n++) {
        await (
          await signIns.begin('home', 'ada')
        )('not failed')
        await fail(`nobody ${n}`)
        await advance(minute)
      }
      t.equal(await retryTime(t, signIns.admit('home', 'ada')), 240)
      t.equal(await signIns.admit('elsewhere', 'ada'), 0)
      for (let n = 0; n < 4; n++) {
        signIns.assertPairNotLocked('home', 'ada')
        await t.rejects(signIns.begin('home', 'ada'), throttled)
      }
      t.throws(() => signIns.assertPairNotLocked('home', 'ada'), throttled)
      signIns.assertPairNotLocked('home', 'bob')
      await advance(4 * minute)
      t.equal(await signIns.admit('home', 'bob'), 0)
      await fail('bob')
      t.equal(await signIns.admit('home', 'bob'), 0, 'the count starts again')
    })

    void s.test('a directory compares eight wrong passwords of a person, whatever the networks', async (t) => {
      const { signIns, directory, lockedOut, advance } = await open(t)
      const person = 'entryUUID=7'
      const guess = (network: string) => directory.begin({ network, account: 'ada', person })
      await signIns.recordSuccess('home', 'ada')
      for (let n = 0; n < 20; n++) {
        await (
          await guess('elsewhere')
        )('not failed')
      }
      const running = await Promise.all([0, 1, 2, 3, 4, 5, 6, 7].map((n) => guess(`bot ${n}`)))
      const another = guess('bot 8')
      const waits = Promise.race([another.catch(() => 'settled'), wait(200, 'waits')])
      t.equal(await waits, 'waits', 'until the outcome of the others is known')
      const gone = new AbortController()
      const left = directory.begin({ network: 'bot 8', account: 'ada', person, signal: gone.signal })
      gone.abort()
      await t.rejects(left, { code: 'aborted' }, 'whoever has left does not wait')
      for (const settle of running) await settle('failed')
      await t.rejects(another, throttled)
      t.match(await lockedOut.list(), [{ kind: 'directory', account: person, failures: 8 }])
      await advance(14 * minute)
      t.equal(await retryTime(t, guess('bot 9')), 60)
      await (
        await guess('home')
      )('failed')
      await directory.begin({ network: 'bot 9', account: 'bob', person: 'entryUUID=8' })
      await advance(minute)
      await (
        await guess('bot 9')
      )('failed')
      await lockedOut.unlockAccount({ id: 7, username: 'ada', subjects: [person] })
      for (let n = 0; n < 8; n++) {
        await (
          await guess('bot 7')
        )('failed')
      }
      await t.rejects(guess('bot 7'), throttled)
    })

    void s.test('whose sign-ins are refused is listed, and forgotten when an admin unlocks it', async (t) => {
      const { signIns, codes, lockedOut, advance } = await open(t)
      const fail = async (network: string, account: string) => (await signIns.begin(network, account))('failed')
      const list = async () =>
        (await lockedOut.list())
          .map(({ kind, network, account, left }) => [kind, network, account, Math.round(left / minute)])
          .sort()
      for (let n = 0; n < 4; n++) await fail('home', 'ada')
      await signIns.recordSuccess('home', 'ada')
      t.strictSame(await list(), [])
      await fail('home', 'ada')
      for (let n = 0; n < 5; n++) await fail('office', `name ${n}`)
      for (let n = 0; n < 10; n++) await codes.countAttempt(7, `bot ${n}`)
      await advance(minute)
      const office = ['address', 'office', undefined, 4]
      const ofCodes = ['codes', undefined, '7', 14]
      t.strictSame(await list(), [['address', 'home', undefined, 4], office, ofCodes, ['pair', 'home', 'ada', 4]])
      t.match((await lockedOut.list()).map(({ failures }) => failures).sort(), [10, 5, 5, 5])

      await t.rejects(signIns.admit('home', 'ada'), throttled)
      t.throws(() => signIns.assertPairNotLocked('home', 'ada'), throttled)
      await lockedOut.unlockNetwork('home')
      t.strictSame(await list(), [office, ofCodes])
      signIns.assertPairNotLocked('home', 'ada')
      t.equal(await signIns.admit('home', 'ada'), 0)
      t.ok(await signIns.isFamiliar('home', 'ada'), 'what has succeeded is not forgotten')
      await t.rejects(signIns.admit('office', 'ada'), throttled)

      for (let n = 0; n < 5; n++) await fail('elsewhere', 'ada')
      await t.rejects(codes.countAttempt(7, 'home'), throttled)
      await lockedOut.unlockAccount({ id: 7, username: 'ada', subjects: [] })
      await codes.countAttempt(7, 'home')
      signIns.assertPairNotLocked('elsewhere', 'ada')
      await lockedOut.unlockNetwork('elsewhere')
      await lockedOut.unlockNetwork('office')
      t.strictSame(await list(), [])
      await fail('office', 'ada')
      t.equal(await signIns.admit('office', 'ada'), 0, 'the count starts again')
    })

    void s.test('an account under a distributed attack is delayed for unknown addresses, never locked', async (t) => {
      const { signIns, advance } = await open(t)
      const fail = async (address: string) => (await signIns.begin(address, 'ada'))('failed')
      await signIns.recordSuccess('home', 'ada')
      for (let n = 0; n < 9; n++) await fail(`bot ${n}`)
      t.equal(await signIns.admit('stranger', 'ada'), 0)
      const delays = []
      for (let n = 0; n < 8; n++) {
        await fail(`more ${n}`)
        delays.push(await signIns.admit('stranger', 'ada'))
      }
      t.same(delays, [200, 400, 800, 1600, 3200, 5000, 5000, 5000])
      t.equal(await signIns.admit('home', 'ada'), 0, 'a recent successful sign-in exempts its address')
      t.equal(await signIns.admit('stranger', 'bob'), 0)
      await advance(15 * minute)
      t.equal(await signIns.admit('stranger', 'ada'), 0)
    })
  })
}

for (const engine of engines) {
  void t.test(
    `a locked address that names ever more accounts stores few rows on ${engine.name}`,
    { skip: engine.skip },
    async (t) => {
      const location = await engine.newDatabase(t)
      const store = await openStore(location)
      t.teardown(() => store.close())
      const { signIns } = sharedLimiters(store.signIns)
      for (let n = 0; n < 5; n++) await (await signIns.begin('home', 'ada'))('failed')
      for (let n = 0; n < 100; n++) await t.rejects(signIns.begin('home', `name ${n}`), throttled)
      const stored = await store.signIns.newest({ kinds: ['refused'], network: 'home' }, 1000)
      t.equal(stored.length, 64)
    },
  )
}

void t.test('nodes that share a database count together', { skip: lacks('postgres', 'initdb') }, async (t) => {
  const location = await (await thisServer()).createDatabase()
  const stores = await Promise.all([1, 2, 3].map(() => openStore(location)))
  t.teardown(() => Promise.all(stores.map((store) => store.close())))
  const signIns = stores.map((store) => sharedLimiters(store.signIns).signIns)

  // Each node compares one attempt of an address at a time.
  let compared = 0
  const guess = async (limiter: SignInLimiter) => {
    for (let n = 0; n < 4; n++) {
      try {
        const settle = await limiter.begin('attacker', 'ada')
        compared++
        await wait(20)
        await settle('failed')
      } catch (error) {
        t.match(error, throttled)
      }
    }
  }
  await Promise.all(signIns.map(guess))
  t.equal(compared, 5)
  for (const limiter of signIns) {
    await t.rejects(limiter.admit('attacker', 'ada'), throttled)
    t.throws(() => limiter.assertPairNotLocked('attacker', 'ada'), throttled)
  }

  const uses = await Promise.all(
    signIns.map(async (limiter) => {
      const outcomes = []
      for (let n = 0; n < 4; n++) outcomes.push((await limiter.begin('office', `user ${n}`))('not failed'))
      await Promise.all(outcomes)
      return outcomes.length
    }),
  )
  t.same(uses, [4, 4, 4], 'successes of one address on several nodes wait for each other, and none is refused')

  const codes = stores.map((store) => sharedLimiters(store.signIns).codes)
  const attempts = codes.flatMap((limiter) => [1, 2, 3, 4, 5].map((n) => limiter.countAttempt(7, `bot ${n}`)))
  const outcomes = await Promise.allSettled(attempts)
  t.equal(outcomes.filter(({ status }) => status === 'fulfilled').length, 10)

  const { id } = await stores[0]!.users.insert(userRow({ username: 'ada' }))
  const steps = await Promise.all(stores.map((store) => store.users.useOtpStep(id, 5)))
  t.equal(steps.filter((isFirst) => isFirst).length, 1, 'a code works once')
})

for (const engine of engines) {
  void t.test(`an unlock is known to all processes on ${engine.name}`, { skip: engine.skip }, async (t) => {
    const location = await engine.newDatabase(t)
    const clock = { time: Date.now() }
    const one = await openAccounts(t, location, clock, true)
    await one.accounts.users.create(newUser({}))
    const two = await openAccounts(t, location, clock, true)
    const address = '198.51.100.9'
    for (let n = 0; n < 5; n++)
      await t.rejects(two.accounts.signIn.issueToken(credentials({ address, plain: `guess ${n}` })), wrong)
    await t.rejects(two.accounts.signIn.issueToken(credentials({ address })), throttled, 'from memory')
    t.match(await one.accounts.lockedSignIns.list(), [
      { kind: 'address', network: address, username: undefined, failures: 5 },
      { kind: 'pair', network: address, username: 'ada', failures: 5 },
    ])
    await one.accounts.lockedSignIns.unlockNetwork(address)
    t.strictSame(await one.accounts.lockedSignIns.list(), [])
    t.ok(
      await until(() =>
        two.accounts.signIn.issueToken(credentials({ address })).then(
          () => true,
          () => false,
        ),
      ),
    )
    await t.rejects(one.accounts.lockedSignIns.unlockUser('nobody'), { code: 'not_found' })
  })
}

void t.test('expired attempts are deleted', { skip: lacks('postgres', 'initdb') }, async (t) => {
  const server = await thisServer()
  const location = await server.createDatabase()
  const store = await openStore(location)
  t.teardown(() => store.close())
  await store.signIns.record({ kind: 'password', network: 'old', account: 'ada' })
  await store.signIns.record({ kind: 'signed_in', network: 'older', account: 'ada' })
  await server.query(`update sign_ins set time = time - ${4 * 60 * minute}`, location)
  await store.signIns.record({ kind: 'password', network: 'new', account: 'ada' })
  await sharedLimiters(store.signIns).sweep()
  t.same(await server.query('select network from sign_ins order by id', location), [
    { network: 'older' },
    { network: 'new' },
  ])
})

void t.test('accounts on two nodes limit guesses together', { skip: lacks('postgres', 'initdb') }, async (t) => {
  const location = await (await thisServer()).createDatabase()
  const clock = { time: Date.now() }
  const one = await openAccounts(t, location, clock)
  await one.accounts.users.create(newUser({}))
  const two = await openAccounts(t, location, clock)
  const address = '198.51.100.8'
  const guesses = [one, two].flatMap(({ accounts }, node) =>
    Array.from({ length: 6 }, (_, n) =>
      accounts.signIn.issueToken(credentials({ address, plain: `guess ${node} ${n}` })),
    ),
  )
  const codes = (await Promise.allSettled(guesses)).map((outcome) =>
    outcome.status === 'rejected' ? (outcome.reason as GatewayError).code : '',
  )
  t.same(codes.sort(), [...Array<string>(7).fill('throttled'), ...Array<string>(5).fill('unauthenticated')])
  await t.rejects(two.accounts.signIn.issueToken(credentials({ address })), throttled)
  await two.accounts.signIn.issueToken(credentials())
  await t.rejects(one.accounts.signIn.byPassword(credentials({ username: 'no\0body' }), webdav), wrong)
})

/**
 * A queue, and a function that adds a job for a network; `served` has the names of the jobs in the order in which they
 * ran.
 */
function queue(t: Test) {
  const turns = new FairQueue()
  const served: string[] = []
  let running = 0
  const add = (party: Requester['party'], name: string, signal?: AbortSignal) =>
    turns.run({ party, signal }, async () => {
      t.equal(++running, 1)
      await new Promise((resolve) => setImmediate(resolve))
      served.push(name)
      running--
    })
  return { turns, served, add }
}

void t.test('FairQueue runs one call at a time, newcomers first, and limits the places of each network', async (t) => {
  const { turns, served, add } = queue(t)
  const greedy = Array.from({ length: 20 }, (_, n) => add({ network: 'greedy' }, `g${n}`))
  const modest = ['one', 'two'].map((network) => add({ network }, network))
  const outcomes = await Promise.allSettled(greedy)
  await Promise.all(modest)
  t.same(served.slice(0, 4), ['g0', 'one', 'two', 'g1'])
  t.equal(outcomes.filter(({ status }) => status === 'rejected').length, 4)
  t.match(outcomes.at(-1), { reason: { ...throttled, retryAfter: 1 } })
  const greedyNetwork = { party: { network: 'greedy' } }
  await t.rejects(
    turns.run(greedyNetwork, () => Promise.reject(new Error('broken'))),
    { message: 'broken' },
  )
  await add({ network: 'greedy' }, 'after')
  t.equal(served.at(-1), 'after')
})

void t.test('FairQueue of several places keeps some for others than the network that has most', async (t) => {
  const turns = new FairQueue(undefined, 3, 2)
  const started: string[] = []
  const ends = new Map<string, () => void>()
  const nextTurn = () => new Promise((resolve) => setImmediate(resolve))
  const run = (network: string, name: string) =>
    turns.run({ party: { network } }, () => {
      started.push(name)
      return new Promise<void>((resolve) => ends.set(name, resolve))
    })
  const jobs = [run('a', 'a1'), run('a', 'a2'), run('a', 'a3'), run('b', 'b1'), run('b', 'b2')]
  await nextTurn()
  t.same(started, ['a1', 'a2', 'b1'])
  ends.get('b1')?.()
  await nextTurn()
  t.same(started, ['a1', 'a2', 'b1', 'b2'], 'the network with two waits on')
  ends.get('a1')?.()
  await nextTurn()
  t.equal(started.at(-1), 'a3')
  for (const end of ends.values()) end()
  await Promise.all(jobs)
})

void t.test('FairQueue serves a newcomer and a known account before 33 networks that go on asking', async (t) => {
  const { served, add } = queue(t)
  for (let n = 0; n < 4; n++) await add({ account: 'ada' }, 'earlier')
  served.length = 0
  const networks = Array.from({ length: 33 }, (_, n) => ({ network: `bot ${n}` }))
  const bots = networks.flatMap((network) => Array.from({ length: 4 }, () => add(network, 'bot')))
  const others = { newcomer: add({ network: 'newcomer' }, 'newcomer'), known: add({ account: 'ada' }, 'known') }
  await others.newcomer
  t.same(served, ['bot', 'known', 'newcomer'], 'those that have come before all have their first job')
  await Promise.all(bots.slice(0, 33 * 2))
  const before = served.length
  await add({ network: 'late' }, 'late')
  t.ok(served.length - before <= 3, `${served.length - before} jobs until one that comes in between is done`)
  await Promise.all([...bots, others.known])
  t.equal(served.length, 33 * 4 + 3)
})

void t.test('FairQueue does not let an account ask first for ever, and serves whatever waits longest', async (t) => {
  const { served, add } = queue(t)
  const jobs = Array.from({ length: 15 }, () => add({ account: 'ada' }, 'ada'))
  jobs.push(add({ network: 'stranger' }, 'stranger'))
  await Promise.all(jobs)
  t.ok(served.indexOf('stranger') <= 12, served.join())
  const fresh = Array.from({ length: 40 }, (_, n) => add({ network: `fresh ${n}` }, `fresh ${n}`))
  await Promise.all(fresh)
  t.ok(served.indexOf('fresh 5') < served.length - 20, 'the first ones do not wait for all that come later')
})

void t.test('a client that has gone frees its place, and a full queue refuses whoever has most of it', async (t) => {
  const { served, add } = queue(t)
  const gone = sharedController()
  const first = add({ network: 'first' }, 'first')
  const left = Array.from({ length: 16 }, (_, n) => add({ network: 'home' }, `left ${n}`, gone.signal))
  await t.rejects(add({ network: 'home' }, 'one more'), throttled)
  gone.abort()
  for (const job of left) await t.rejects(job, { code: 'aborted' })
  await t.rejects(add({ network: 'home' }, 'too late', gone.signal), { code: 'aborted' })

  const bots = Array.from({ length: 33 * 16 }, (_, n) => add({ network: `bot ${n % 33}` }, 'bot'))
  const outcomes = Promise.allSettled(bots)
  await Promise.all([first, add({ network: 'home' }, 'home'), add({ network: 'elsewhere' }, 'elsewhere')])
  const refused = (await outcomes).filter(({ status }) => status === 'rejected')
  t.equal(refused.length, 33 * 16 - 512 + 2, 'the last ones of the networks with most places')
  t.equal(served.filter((name) => name === 'bot').length, 510)
})

void t.test('the code of one account does not wait for that of another', async () => {
  const hashes = new FairQueue()
  const secret = newOtpSecret()
  const now = Date.now()
  const stuck = new Promise<never>(() => undefined)
  const check = new PasswordCheck({
    get: () => undefined,
    byName: () => undefined,
    useOtpStep: async () => true,
    useRecoveryCode: async () => false,
    replaceHash: async () => undefined,
    directory: () => undefined,
    limiter: limiterInMemory(() => now),
    codeLimiter: { countAttempt: (userId) => (userId === 1 ? stuck : Promise.resolve(async () => undefined)) },
    directoryLimiter: { begin: async () => async () => undefined },
    hashes,
    now: () => now,
  })
  const code = codesOf(secret, now).right
  const user = (id: number) => ({ ...userRow({ username: `user ${id}`, otpSecret: secret }), id })
  void check.checkCode(user(1), credentials({ code }))
  await check.checkCode(user(2), credentials({ code }))
})

void t.test('changes of accounts that are refused, or change no password, cost no slow hash', async (t) => {
  const { accounts, ada } = await fixture(t, hashPassword)
  const { users } = accounts
  const one = await processorTime(() => hashPassword('x'), 3)
  const refuse = async (work: () => Promise<unknown>, code: string): Promise<void> => {
    const spent = await processorTime(() => Promise.all(Array.from({ length: 40 }, () => t.rejects(work(), { code }))))
    t.ok(spent < 10 * one, `40 cost ${spent.toFixed(0)} ms, a slow hash ${one.toFixed(0)} ms`)
  }
  const password = 'x'
  await refuse(() => users.update(ada.id, { username: 'admin', password }), 'exists')
  await refuse(() => users.update(ada.id, { password, permission: -1 }), 'invalid')
  await refuse(() => users.update(ada.id, { password, role: 'admin' }), 'invalid')
  await refuse(() => users.update(99, { password }), 'not_found')
  await refuse(() => users.create(newUser({})), 'exists')
  await refuse(() => users.create(newUser({ username: 'bob', permission: -1 })), 'invalid')
  const unchanged = await processorTime(() =>
    Promise.all(Array.from({ length: 40 }, () => users.update(ada.id, { username: 'ada' }))),
  )
  t.ok(unchanged < 10 * one, `${unchanged.toFixed(0)} ms without a new password`)

  // The hashes of changes take turns with those of sign-ins, and an account has 16 places.
  const requester = { party: { account: 'ada' } }
  const changes = Array.from({ length: 20 }, () => users.update(ada.id, { password: 'new' }, requester))
  const outcomes = Promise.allSettled(changes)
  await accounts.signIn.issueToken(credentials({ username: 'admin', plain: 'admin password' }))
  const refused = (await outcomes).filter(({ status }) => status === 'rejected')
  t.equal(refused.length, 4)
  t.match(refused[0], { reason: { code: 'throttled', retryAfter: 1 } })
})

void t.test('of clients that share a check, the last one that goes ends it', async (t) => {
  const { accounts } = await fixture(t, hashPassword)
  const address = '198.51.100.9'
  const busy = accounts.signIn.issueToken(credentials())
  const gone = new AbortController()
  const leaving = [1, 2].map(() => accounts.signIn.issueToken(credentials({ address, signal: gone.signal })))
  const staying = accounts.signIn.issueToken(credentials({ address }))
  const alone = accounts.signIn.issueToken(
    credentials({ address: '198.51.100.10', plain: 'other', signal: gone.signal }),
  )
  await new Promise((resolve) => setImmediate(resolve))
  gone.abort()
  for (const each of [...leaving, alone]) await t.rejects(each, { code: 'aborted' })
  await Promise.all([busy, staying])
})

void t.test('a stored password includes its parameters, and a malformed one matches no password', async (t) => {
  const hash = staticHash('secret')
  const stored = await hashPassword(hash)
  t.match(stored, /^scrypt\$15\$8\$3\$[\w-]{22}\$[\w-]{43}$/)
  t.not(stored, await hashPassword(hash))
  t.equal(await isPassword(hash, stored), true)
  t.equal(await isPassword(staticHash('Secret'), stored), false)
  t.equal(await isPassword(hash, impossiblePassword()), false)
  for (const none of ['', hash, 'scrypt$15$8$3', stored.slice(0, -4)]) t.equal(await isPassword(hash, none), false)
  const { scryptSync } = await import('node:crypto')
  const older = `scrypt$10$8$1$c2FsdA$${scryptSync(hash, 'salt', 32, { N: 1024, r: 8, p: 1 }).toString('base64url')}`
  t.equal(await isPassword(hash, older), true, 'older parameters are used for older passwords')
})

void t.test('sign-in takes as long for an unknown name as for a wrong password', async (t) => {
  const { accounts } = await fixture(t, hashPassword)
  const shortest = { known: Infinity, unknown: Infinity }
  const areAlike = () => Math.abs(shortest.known - shortest.unknown) < shortest.known / 3
  // Load on the machine only adds time, so the minimum of several runs is close to the real cost.
  for (let n = 0; n < 7 || (n < 40 && !areAlike()); n++) {
    for (const [kind, username] of [
      ['known', 'ada'],
      ['unknown', 'nobody'],
    ] as const) {
      const took = await processorTime(() =>
        t.rejects(accounts.signIn.issueToken(credentials({ username, plain: `wrong ${n}` })), wrong),
      )
      shortest[kind] = Math.min(shortest[kind], took)
    }
  }
  t.ok(areAlike(), `${shortest.known.toFixed(1)} ms and ${shortest.unknown.toFixed(1)} ms`)
})

void t.test('verified Basic credentials are cached for minutes, until the account changes', async (t) => {
  const { accounts, ada, clock } = await fixture(t, hashPassword)
  const presented = credentials()
  const ask = () => accounts.signIn.byPassword(presented, webdav)
  const first = await processorTime(() => Promise.all(Array.from({ length: 32 }, ask)))
  const thousand = await processorTime(async () => {
    for (let n = 0; n < 1000; n++) await ask()
  })
  const each = thousand / 1000
  t.ok(each < first / 50, `${first.toFixed(1)} ms for 32 at once, then ${each.toFixed(4)} ms each`)

  clock.time += 4 * minute
  t.ok((await processorTime(ask, 3)) < first / 4)
  clock.time += 4 * minute
  t.ok((await processorTime(ask, 3)) < first / 4, 'use extends the time')
  clock.time += 6 * minute
  t.ok((await processorTime(ask)) > first / 4, 'minutes without use end it')
  const { signal } = await accounts.signIn.byPassword(presented, webdav)
  await accounts.users.update(ada.id, { password: 'new one' })
  t.equal(signal.aborted, true)
  await t.rejects(accounts.signIn.byPassword(presented, webdav), wrong)
  await accounts.users.update(ada.id, { password: adaPassword })
  await accounts.signIn.byPassword(presented, webdav)
  await accounts.users.update(ada.id, { disabled: true })
  await t.rejects(accounts.signIn.byPassword(presented, webdav), { code: 'denied' })
})
