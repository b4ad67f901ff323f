/** Passkeys over the HTTP API, with an authenticator in software that can also lie. */
import t, { type Test } from 'tap'
import { newOtpSecret } from '../../src/accounts/otp.js'
import { begunLimit } from '../../src/sign-in/pending-sign-ins.js'
import { moveClock } from '../moved-clock.js'
import { Served, serve, type Envelope } from '../protocols/http/served.js'
import { Authenticator, type CreationOptions, type Lies, type RequestOptions } from './authenticator.js'

interface Begun<Options> {
  readonly options: { readonly publicKey: Options }
  readonly session: string
}

const site = 'https://files.example.test'
const minutes = 60_000
const refused = { code: 400, message: 'the passkey was not accepted, try again', data: null }
const done = { code: 200, message: 'success', data: null }

t.beforeEach(() => moveClock(0))
t.teardown(() => moveClock(0))

async function served(t: Test, siteUrl = site): Promise<Served> {
  const admin = await serve(t, siteUrl)
  await admin.gateway.settings.set(new Map([['webauthn_login_enabled', 'true']]))
  return admin
}

async function beginRegistration(who: Served, name = ''): Promise<Begun<CreationOptions>> {
  const begun = await who.get(`/api/authn/webauthn_begin_registration?name=${encodeURIComponent(name)}`)
  return begun.data as Begun<CreationOptions>
}

async function register(who: Served, authenticator: Authenticator, lies: Lies = {}, name = ''): Promise<Envelope> {
  const { options, session } = await beginRegistration(who, name)
  const credential = authenticator.create(options.publicKey, lies)
  return who.post('/api/authn/webauthn_finish_registration', credential, { session })
}

async function begin({ url, gateway }: Served): Promise<Begun<RequestOptions>> {
  return (await new Served(url, gateway).get('/api/authn/webauthn_begin_login?username=')).data as Begun<RequestOptions>
}

function finish({ url, gateway }: Served, credential: object, session: string, username = ''): Promise<Envelope> {
  return new Served(url, gateway).post(`/api/authn/webauthn_finish_login?username=${username}`, credential, { session })
}

async function signIn(at: Served, authenticator: Authenticator, lies: Lies = {}): Promise<Envelope> {
  const { options, session } = await begin(at)
  return finish(at, authenticator.get(options.publicKey, lies), session)
}

const signedIn = { code: 200, data: { token: String } }

async function listed(who: Served) {
  const { data } = await who.get('/api/authn/getcredentials')
  return data as readonly { id: string; fingerprint: string; name: string; created_at: string; last_used_at: string }[]
}

void t.test('a passkey is registered, and signs its user in without a name', async (t) => {
  const admin = await served(t)
  const ann = await admin.as('ann', [])
  const { id } = admin.gateway.accounts.users.byName('ann')!
  const begun = await beginRegistration(ann, 'phone')
  t.match(begun.session, /^[\w-]{43}$/, 'a secret, without any data')
  const handle = Buffer.alloc(8)
  handle.writeUInt32LE(id)
  t.match(begun.options.publicKey, {
    rp: { id: 'files.example.test', name: admin.gateway.settings.get('site_title') },
    user: { id: handle.toString('base64url'), name: 'ann', displayName: 'ann' },
    challenge: /^[\w-]{43}$/,
    excludeCredentials: [],
    authenticatorSelection: { residentKey: 'required', userVerification: 'required' },
    attestation: 'none',
  })
  const authenticator = new Authenticator(site)
  const credential = authenticator.create(begun.options.publicKey)
  const { session } = begun
  t.match(await ann.post('/api/authn/webauthn_finish_registration', credential, { session }), {
    code: 200,
    data: 'Registered Successfully',
  })
  const { challenge, ...options } = (await begin(admin)).options.publicKey
  t.match(challenge, /^[\w-]{43}$/)
  t.strictSame(options, { timeout: 300_000, rpId: 'files.example.test', userVerification: 'required' })
  const { data } = await signIn(admin, authenticator)
  const again = new Served(ann.url, ann.gateway, (data as { token: string }).token)
  t.match(await again.get('/api/me'), { data: { username: 'ann' } })
  const [shown, ...others] = await listed(again)
  t.strictSame(others, [])
  t.match(shown, {
    id: Buffer.from(credential.id, 'base64url').toString('base64'),
    fingerprint: '00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00',
    name: 'phone',
    created_at: /^\d{4}-/,
    last_used_at: /^\d{4}-/,
  })
  const [row] = await admin.gateway.store.passkeys.of(id)
  t.match(row, { counter: 1, backupEligible: false, transports: ['internal'] })
  const { options: more } = await beginRegistration(again)
  t.match(more.publicKey.excludeCredentials, [{ type: 'public-key', id: credential.id }], 'no second one beside it')
})

void t.test('an answer is accepted once, within five minutes, for what was begun', async (t) => {
  const admin = await served(t)
  const ann = await admin.as('ann', [])
  const authenticator = new Authenticator(site)
  await register(ann, authenticator)
  const { options, session } = await begin(admin)
  const answer = authenticator.get(options.publicKey)
  t.match(await finish(admin, answer, session), signedIn)
  t.strictSame(await finish(admin, answer, session), refused, 'a replay')
  const other = await begin(admin)
  t.strictSame(await finish(admin, answer, other.session), refused, 'with another challenge')
  const late = await begin(admin)
  moveClock(5 * minutes)
  t.strictSame(await finish(admin, authenticator.get(late.options.publicKey), late.session), refused)
  moveClock(0)
  t.strictSame(await finish(admin, answer, 'A'.repeat(43)), refused, 'with a made-up secret')
  t.match(await finish(admin, answer, 'short'), {
    code: 400,
    message: 'session is not one that a beginning has returned',
  })
  t.match(await finish(admin, answer, '', ''), { code: 400 })

  const registration = await beginRegistration(ann)
  const asRequest = { rpId: 'files.example.test', challenge: registration.options.publicKey.challenge }
  t.strictSame(await finish(admin, authenticator.get(asRequest), registration.session), refused, 'of a registration')
  const login = await begin(admin)
  const asCreation = { ...registration.options.publicKey, challenge: login.options.publicKey.challenge }
  const made = new Authenticator(site).create(asCreation)
  t.strictSame(
    await ann.post('/api/authn/webauthn_finish_registration', made, { session: login.session }),
    refused,
    'a registration with the challenge of a sign-in',
  )

  const race = await begin(admin)
  const signed = authenticator.get(race.options.publicKey)
  const answers = await Promise.all(Array.from({ length: 8 }, () => finish(admin, signed, race.session)))
  t.equal(answers.filter(({ code }) => code === 200).length, 1, 'of concurrent ones, one')
})

void t.test('an answer with anything wrong in it is refused, and costs nothing but the beginning', async (t) => {
  const admin = await served(t)
  const ann = await admin.as('ann', [])
  const authenticator = new Authenticator(site)
  await register(ann, authenticator)
  const lies: Readonly<Record<string, Lies>> = {
    'another origin': { origin: 'https://evil.example.test' },
    'the origin by http': { origin: 'http://files.example.test' },
    'another port': { origin: `${site}:8443` },
    'the rp of another site': { rpId: 'example.test' },
    'another challenge': { challenge: Buffer.alloc(32).toString('base64url') },
    'the type of a registration': { type: 'webauthn.create' },
    'no user verification': { userVerified: false },
  }
  for (const [name, lie] of Object.entries(lies)) t.strictSame(await signIn(admin, authenticator, lie), refused, name)
  for (const [name, lie] of Object.entries(lies)) {
    if (lie.type === undefined) t.strictSame(await register(ann, new Authenticator(site), lie), refused, name)
  }

  const { options, session } = await begin(admin)
  const answer = authenticator.get(options.publicKey)
  const stranger = new Authenticator(site)
  stranger.create((await beginRegistration(ann)).options.publicKey)
  t.strictSame(await finish(admin, stranger.get(options.publicKey), session), refused, 'not registered')
  const next = await begin(admin)
  const { signature } = stranger.get(next.options.publicKey).response
  const genuine = authenticator.get(next.options.publicKey)
  const forged = { ...genuine, response: { ...genuine.response, signature } }
  t.strictSame(await finish(admin, forged, next.session), refused, 'signed by another key')
  for (const field of ['clientDataJSON', 'authenticatorData', 'signature'] as const) {
    for (const value of ['', 'AAAA', 'A'.repeat(16_000)]) {
      const broken = { ...answer, response: { ...answer.response, [field]: value } }
      t.strictSame(await finish(admin, broken, (await begin(admin)).session), refused, `${field}: ${value.length}`)
    }
  }
  const malformed = { code: 400, message: 'the answer of the authenticator is malformed' }
  for (const wrong of [
    {},
    { ...answer, id: '' },
    { ...answer, id: 'a b' },
    { ...answer, id: 'A'.repeat(2000) },
    { ...answer, type: 'password' },
    { ...answer, response: null },
    { ...answer, response: { ...answer.response, signature: 'A'.repeat(20_000) } },
  ]) {
    t.match(await finish(admin, wrong, (await begin(admin)).session), malformed)
  }
  t.match(await finish(admin, { ...answer, more: 'A'.repeat(70_000) }, session), { code: 400, message: /larger than/ })
  t.match(await signIn(admin, authenticator), signedIn, 'the passkey works')
})

void t.test('a copied authenticator is found by its counter; one that is synchronized need not count', async (t) => {
  const admin = await served(t)
  const ann = await admin.as('ann', [])
  const authenticator = new Authenticator(site)
  await register(ann, authenticator)
  await signIn(admin, authenticator)
  const copy = authenticator.clone()
  t.match(await signIn(admin, copy), signedIn, 'whoever comes first')
  t.strictSame(await signIn(admin, authenticator), refused, 'its counter is that of the copy')
  t.strictSame(await signIn(admin, authenticator, { counter: 1 }), refused)
  t.strictSame(await signIn(admin, authenticator, { counter: 0 }), refused)
  t.match(await signIn(admin, authenticator, { counter: 40 }), signedIn)
  t.strictSame(await signIn(admin, authenticator, { counter: 3, backedUp: true }), refused, 'as a synchronized one')

  const bob = await admin.as('bob', [])
  const uncounted = new Authenticator(site, false)
  await register(bob, uncounted)
  for (let time = 0; time < 3; time++) t.match(await signIn(admin, uncounted), signedIn, 'the counter stays 0')

  const eve = await admin.as('eve', [])
  const synchronized = new Authenticator(site)
  await register(eve, synchronized, { backedUp: true })
  for (const counter of [7, 3, 3]) {
    t.match(await signIn(admin, synchronized, { counter, backedUp: true }), signedIn, `back to ${counter}`)
  }
})

void t.test('a beginning tells nothing about names, and an answer is of the user that was named', async (t) => {
  const admin = await served(t)
  const ann = await admin.as('ann', [])
  await admin.as('bob', [])
  const authenticator = new Authenticator(site)
  await register(ann, authenticator)
  const nobody = new Served(admin.url, admin.gateway)
  const shapes = []
  for (const name of ['', 'ann', 'bob', 'no such user']) {
    const { data, ...rest } = await nobody.get(`/api/authn/webauthn_begin_login?username=${encodeURIComponent(name)}`)
    const { challenge: _, ...options } = (data as Begun<RequestOptions>).options.publicKey
    shapes.push({ ...rest, options })
  }
  for (const shape of shapes) t.strictSame(shape, shapes[0])
  for (const [name, expected] of [
    ['ann', signedIn],
    ['bob', refused],
    ['nobody', refused],
  ] as const) {
    const { options, session } = await begin(admin)
    t.match(await finish(admin, authenticator.get(options.publicKey), session, name), expected, name)
  }
})

void t.test('one network cannot begin without end, nor keep others from it', async (t) => {
  const admin = await served(t)
  const nobody = new Served(admin.url, admin.gateway)
  for (let count = 0; count < begunLimit.count; count++) await begin(admin)
  const answer = await fetch(`${admin.url}/api/authn/webauthn_begin_login`)
  t.match(await answer.json(), { code: 429, error: 'sign_in_throttled' })
  t.ok(Number(answer.headers.get('retry-after')) > 0)
  const { passkeys } = admin.gateway
  const where = { id: 'files.example.test', origin: site }
  await t.resolves(passkeys.beginSignIn(where, '192.0.2.9'))
  await t.rejects(passkeys.beginSignIn(where, '::ffff:127.0.0.1'), { code: 'throttled' })
  moveClock(begunLimit.time)
  t.match(await nobody.get('/api/authn/webauthn_begin_login'), { code: 200 })
})

void t.test('the account must be usable, and the guest has no passkeys', async (t) => {
  const admin = await served(t)
  const { users } = admin.gateway.accounts
  const ann = await admin.as('ann', [])
  const authenticator = new Authenticator(site)
  await register(ann, authenticator)
  const { id } = users.byName('ann')!
  await users.update(id, { disabled: true })
  t.match(await signIn(admin, authenticator), { code: 400, message: 'Current user is disabled, replace please' })
  await users.update(id, { disabled: false, expires: new Date(0) })
  t.match(await signIn(admin, authenticator), { code: 400, message: 'this account has expired' })
  await users.update(id, { expires: null, allowFrom: ['192.0.2.0/24'] })
  t.match(await signIn(admin, authenticator), { code: 400, message: 'this account cannot be used from this network' })
  await users.update(id, { allowFrom: [] })
  t.match(await signIn(admin, authenticator), signedIn)

  const guest = users.byUniqueRole('guest')!
  await users.update(guest.id, { disabled: false })
  const nobody = new Served(admin.url, admin.gateway)
  for (const path of ['webauthn_begin_registration', 'getcredentials']) {
    t.match(await nobody.get(`/api/authn/${path}`), { code: 401, message: 'user invalid' }, path)
  }
  const [row] = await admin.gateway.store.passkeys.of(id)
  await admin.gateway.store.passkeys.update(row?.id ?? 0, { userId: guest.id })
  t.strictSame(await signIn(admin, authenticator), refused, 'also if the guest had one')
})

void t.test('a passkey counts as two-step verification', async (t) => {
  const admin = await served(t)
  const { users, groups } = admin.gateway.accounts
  const ann = await admin.as('ann', [])
  const authenticator = new Authenticator(site)
  await register(ann, authenticator)
  const { id } = users.byName('ann')!
  const group = { name: 'staff', description: '', permission: 0, admin: false, members: [id] }
  await groups.create({ ...group, requireTwoStep: true })
  const { data } = await signIn(admin, authenticator)
  const strong = new Served(ann.url, ann.gateway, (data as { token: string }).token)
  t.match(await ann.get('/api/me/sshkey/list'), { code: 403 }, 'by the password it must be set up first')
  t.match(await strong.get('/api/me/sshkey/list'), { code: 200 })
  await users.update(id, { otpSecret: newOtpSecret() })
  t.match(await signIn(admin, authenticator), signedIn, 'no code is asked')
})

/** The cookie of a response; empty if it sets none. */
async function consoleSession(at: Served, path: string, fields: object): Promise<{ cookie: string; answer: Envelope }> {
  const headers = { 'content-type': 'application/json' }
  const response = await fetch(at.url + path, { method: 'POST', headers, body: JSON.stringify(fields) })
  return {
    cookie: response.headers.getSetCookie()[0]?.split(';')[0] ?? '',
    answer: (await response.json()) as Envelope,
  }
}

void t.test('a passkey opens a session of the console, and confirms it', async (t) => {
  const admin = await served(t)
  const [ann, bob] = [await admin.as('ann', []), await admin.as('bob', [])]
  const authenticator = new Authenticator(site)
  const ofBob = new Authenticator(site)
  await register(ann, authenticator)
  await register(bob, ofBob)
  const begun = await begin(admin)
  const credential = authenticator.get(begun.options.publicKey)
  const { cookie, answer } = await consoleSession(admin, '/api/auth/session/passkey', {
    session: begun.session,
    credential,
  })
  t.strictSame(answer, done)
  t.match(cookie, /^tidegate_session=tgs-/)
  const page = new Served(admin.url, admin.gateway)
  const get = (path: string) => page.get(path, { cookie })
  const post = (path: string, body: object) => page.post(path, body, { cookie })
  t.match(await get('/api/me'), { data: { username: 'ann' } })
  moveClock(10 * minutes)
  const add = () => post('/api/me/app_password/add', { name: 'phone' })
  t.match(await add(), { code: 403, message: /sign in again/ })
  const confirm = async (by: Authenticator, options: Partial<RequestOptions> = {}) => {
    const { options: asked, session } = (await get('/api/auth/session/confirm/passkey/begin'))
      .data as Begun<RequestOptions>
    t.strictSame(
      asked.publicKey.allowCredentials?.map(({ id }) => id),
      authenticator.ids,
    )
    return post('/api/auth/session/confirm/passkey', {
      session,
      credential: by.get({ ...asked.publicKey, ...options }),
    })
  }
  t.strictSame(await confirm(ofBob, { allowCredentials: ofBob.ids.map((id) => ({ id })) }), refused, 'that of another')
  const anybody = await begin(admin)
  const ofSignIn = authenticator.get(anybody.options.publicKey)
  t.strictSame(
    await post('/api/auth/session/confirm/passkey', { session: anybody.session, credential: ofSignIn }),
    refused,
    'begun for a sign-in',
  )
  const forConfirmation = (await get('/api/auth/session/confirm/passkey/begin')).data as Begun<RequestOptions>
  t.strictSame(
    await finish(admin, authenticator.get(forConfirmation.options.publicKey), forConfirmation.session),
    refused,
    'a sign-in by what was begun for a confirmation',
  )
  t.match(await add(), { code: 403 })
  t.strictSame(await confirm(authenticator), done)
  t.match(await add(), { code: 200 })
  t.match(await ann.post('/api/auth/session/confirm/passkey', { session: begun.session, credential }), {
    code: 400,
    message: 'only a session of the console can be confirmed: sign in again',
  })
  const carl = await admin.as('carl', [])
  t.match(await carl.get('/api/auth/session/confirm/passkey/begin'), { code: 400, message: 'the user has no passkeys' })
  const elsewhere = { origin: 'http://elsewhere.example' }
  const forced = { session: begun.session, credential }
  t.match(await page.post('/api/auth/session/passkey', forced, elsewhere), { code: 403 }, 'from a page of another site')
})

void t.test('a passkey is the second step after a password', async (t) => {
  const admin = await served(t)
  const [ann, bob] = [await admin.as('ann', []), await admin.as('bob', [])]
  const authenticator = new Authenticator(site)
  const ofBob = new Authenticator(site)
  await register(bob, ofBob)
  const { users } = admin.gateway.accounts
  const turnOn = () => users.update(users.byName('ann')!.id, { otpSecret: newOtpSecret() })
  const enter = (fields: object) =>
    consoleSession(admin, '/api/auth/session', { username: 'ann', password: 'password', ...fields })
  await turnOn()
  t.match(await enter({}), { answer: { code: 402, data: null } }, 'without passkeys there is only the code')
  await users.update(users.byName('ann')!.id, { otpSecret: '' })
  await register(ann, authenticator)
  await turnOn()

  const wrong = await consoleSession(admin, '/api/auth/session', { username: 'ann', password: 'wrong' })
  t.match(wrong, { answer: { code: 400, data: null } }, 'not before the password is right')
  const offered = async () => (await enter({})).answer.data as { passkey: Begun<RequestOptions> }
  const { passkey } = await offered()
  t.strictSame(
    passkey.options.publicKey.allowCredentials?.map(({ id }) => id),
    authenticator.ids,
  )
  const credential = authenticator.get(passkey.options.publicKey)
  const { session } = passkey
  t.strictSame(await finish(admin, credential, session), refused, 'it is no sign-in by itself')
  t.match(
    await enter({ passkey: { session, credential } }),
    { answer: refused, cookie: '' },
    'and was completed by that',
  )
  const second = (await offered()).passkey
  const answer = { session: second.session, credential: authenticator.get(second.options.publicKey) }
  const { cookie } = await enter({ passkey: answer })
  t.match(await new Served(admin.url, admin.gateway).get('/api/me', { cookie }), { data: { username: 'ann' } })
  t.match(await enter({ passkey: answer }), { answer: refused, cookie: '' }, 'once')
  const third = (await offered()).passkey
  const foreign = ofBob.get({ ...third.options.publicKey, allowCredentials: ofBob.ids.map((id) => ({ id })) })
  t.match(await enter({ passkey: { session: third.session, credential: foreign } }), { answer: refused, cookie: '' })
  const fourth = (await offered()).passkey
  const guess = { session: fourth.session, credential: authenticator.get(fourth.options.publicKey) }
  t.match(await enter({ password: 'wrong', passkey: guess }), { answer: { code: 400 }, cookie: '' })
  await admin.gateway.settings.set(new Map([['webauthn_login_enabled', 'false']]))
  t.match(await enter({}), { answer: { code: 402, data: null } }, 'not while passkeys are off')
  t.match(await enter({ passkey: guess }), { cookie: '' })
})

void t.test('passkeys are renamed and removed by their user only', async (t) => {
  const admin = await served(t)
  const [ann, bob] = [await admin.as('ann', []), await admin.as('bob', [])]
  const authenticator = new Authenticator(site)
  await register(ann, authenticator)
  const [{ id, name } = { id: '', name: '' }] = await listed(ann)
  t.equal(name, 'Passkey', 'a name of its own')
  const rename = (who: Served, fields: object) => who.post('/api/authn/rename_authn', { id, ...fields })
  t.match(await rename(bob, { name: 'mine' }), { code: 404, message: 'passkey not found' })
  t.match(await rename(ann, { name: 'x'.repeat(256) }), { code: 400 })
  t.strictSame(await rename(ann, { name: 'Schlüssel' }), done)
  t.match(await listed(ann), [{ name: 'Schlüssel' }])
  const remove = (who: Served, which = id) => who.post('/api/authn/delete_authn', { id: which })
  t.match(await remove(bob), { code: 200 })
  t.equal((await listed(ann)).length, 1, 'it is not that of bob')
  moveClock(10 * minutes)
  t.match(await remove(ann), { code: 403 }, 'that needs a recent sign-in')
  t.match(await ann.get('/api/authn/webauthn_begin_registration'), { code: 403 }, 'and so does another one')
  moveClock(0)
  t.match(await remove(ann), { code: 200, data: 'Deleted Successfully' })
  t.match(await remove(ann), { code: 200 }, 'also if it does not exist')
  t.strictSame(await listed(ann), [])
  t.strictSame(await signIn(admin, authenticator), refused)

  const another = new Authenticator(site)
  await register(ann, another)
  const { id: annId } = admin.gateway.accounts.users.byName('ann')!
  const shown = await admin.get(`/api/admin/user/passkey/list?uid=${annId}`)
  t.strictSame(shown.data, await listed(ann), 'an admin sees them')
  const removeAsAdmin = (uid: number, which: string) =>
    admin.post(`/api/admin/user/passkey/delete?uid=${uid}`, { id: which })
  const [{ id: anotherId } = { id: '' }] = await listed(ann)
  const { id: bobId } = admin.gateway.accounts.users.byName('bob')!
  t.strictSame(await removeAsAdmin(bobId, anotherId), done)
  t.equal((await listed(ann)).length, 1, 'of another user')
  t.match(await removeAsAdmin(99_999, anotherId), { code: 404 })
  t.strictSame(await removeAsAdmin(annId, anotherId), done)
  t.strictSame(await listed(ann), [])
  await register(ann, another)
  const begun = await beginRegistration(ann)
  const forBob = new Authenticator(site).create(begun.options.publicKey)
  const { session } = begun
  t.strictSame(await bob.post('/api/authn/webauthn_finish_registration', forBob, { session }), refused)
  await admin.gateway.accounts.users.delete(admin.gateway.accounts.users.byName('ann')!.id)
  t.strictSame(await signIn(admin, another), refused, 'it has ended with its account')
})

void t.test('a passkey is registered once, and without a statement of its manufacturer', async (t) => {
  const admin = await served(t)
  const [ann, bob] = [await admin.as('ann', []), await admin.as('bob', [])]
  const first = await beginRegistration(ann)
  const authenticator = new Authenticator(site)
  const made = authenticator.create(first.options.publicKey)
  const send = (who: Served, credential: object, session: string) =>
    who.post('/api/authn/webauthn_finish_registration', credential, { session })
  t.match(await send(ann, made, first.session), { code: 200 })
  const second = await beginRegistration(bob)
  const copied = new Authenticator(site, true, authenticator.ids[0]).create(second.options.publicKey)
  t.match(await send(bob, copied, second.session), { code: 400, message: 'this passkey is registered already' })
  const third = await beginRegistration(bob)
  const stated = new Authenticator(site).create(third.options.publicKey, { format: 'apple' })
  t.strictSame(await send(bob, stated, third.session), refused)
  const rubbish = await beginRegistration(bob)
  const broken = { ...stated, response: { ...stated.response, attestationObject: 'AAAA' } }
  t.strictSame(await send(bob, broken, rubbish.session), refused)
  t.match(await bob.get(`/api/authn/webauthn_begin_registration?name=${'x'.repeat(256)}`), {
    code: 400,
    message: 'a passkey needs a name of at most 255 bytes',
  })
  t.strictSame(await listed(bob), [])
})

void t.test('the site is that of the configuration, and no header can name another', async (t) => {
  const answerOf = async (siteUrl: string, headers: Record<string, string> = {}) => {
    const admin = await served(t, siteUrl)
    const port = new URL(admin.url).port
    const nobody = new Served(admin.url, admin.gateway)
    return { port, ...(await nobody.get('/api/authn/webauthn_begin_login', headers)) }
  }
  const forged = { 'x-forwarded-host': 'evil.example', 'x-forwarded-proto': 'https', forwarded: 'host=evil.example' }
  t.match(await answerOf('https://files.example.test/base', forged), {
    data: { options: { publicKey: { rpId: 'files.example.test' } } },
  })
  const unusable = { code: 400, message: /set site_url to a URL of https/ }
  for (const siteUrl of ['http://files.example.test', 'https://192.0.2.1', 'https://[2001:db8::1]', '', '/base']) {
    t.match(await answerOf(siteUrl, forged), unusable, siteUrl)
  }
  t.match(await answerOf('http://localhost:5244'), { data: { options: { publicKey: { rpId: 'localhost' } } } })

  const admin = await serve(t)
  const nobody = new Served(admin.url, admin.gateway)
  for (const path of ['/api/authn/webauthn_begin_login', '/api/authn/webauthn_begin_login?username=admin']) {
    t.match(await nobody.get(path), { code: 403, message: 'WebAuthn is not enabled' })
  }
  t.match(await admin.get('/api/authn/webauthn_begin_registration'), { code: 403, message: 'WebAuthn is not enabled' })
})

void t.test('sign-ins by passkeys are in the audit and, if they are refused, in the log', async (t) => {
  const admin = await served(t)
  const ann = await admin.as('ann', [])
  const authenticator = new Authenticator(site)
  const events: object[] = []
  admin.gateway.audit.on((event) => void events.push(event))
  await register(ann, authenticator, {}, 'phone')
  await signIn(admin, authenticator)
  await signIn(admin, authenticator, { counter: 1 })
  const [{ id } = { id: '' }] = await listed(ann)
  await ann.post('/api/authn/rename_authn', { id, name: 'desk' })
  const { id: annId } = admin.gateway.accounts.users.byName('ann')!
  await admin.post(`/api/admin/user/passkey/delete?uid=${annId}`, { id })
  await register(ann, new Authenticator(site))
  const [{ id: second } = { id: '' }] = await listed(ann)
  await ann.post('/api/authn/delete_authn', { id: second })
  const actor = { name: 'ann', protocol: 'http', address: '127.0.0.1' }
  t.match(events, [
    { kind: 'admin.key', subject: 'phone', result: 'done', actor },
    { kind: 'signin.ok', subject: 'passkey', result: 'done', actor },
    { kind: 'signin.refused', subject: 'passkey', result: 'refused', error: 'passkey_refused', actor },
    { kind: 'admin.key', subject: 'phone → desk', result: 'done', actor },
    { kind: 'admin.key', subject: 'ann: desk', result: 'done', actor: { name: 'admin' } },
    { kind: 'admin.key', subject: 'Passkey', result: 'done', actor },
    { kind: 'admin.key', subject: 'Passkey', result: 'done', actor },
  ])
})
