/** Signed URLs: how signatures are computed, which are rejected or revoked, and which files require none. */
import { join } from 'node:path'
import t from 'tap'
import { http } from '../../protocols/http/index.js'
import type { ErrorDetail } from '../../src/base/errors.js'
import { asPath } from '../../src/base/path.js'
import { SignedUrls } from '../../src/download-urls/signed-urls.js'
import { coreSettings } from '../../src/settings/settings-table.js'
import { Settings } from '../../src/settings/settings.js'
import { openStore } from '../../src/database/store.js'
import { processorTime } from '../processor-time.js'

const file = asPath('/a b.txt')
/** HMAC-SHA-256 of `/a b.txt:0`, computed by another program. */
const known = 'tG9xva1DKND2HBrzeJ0waF3kWqp9qNh-EBj45bvxgeI=:0'
const hour = 3600_000

async function opened(t: Tap, values: Record<string, string> = {}, protectedPath = '') {
  const store = await openStore(join(t.testdir(), 'tidegate.db'))
  t.teardown(() => store.close())
  const settings = await Settings.open(store, coreSettings)
  await settings.set(new Map(Object.entries({ token: 't'.repeat(32), ...values })))
  const clock = { time: Date.UTC(2026, 0, 1) }
  const signedUrls = new SignedUrls({
    settings,
    needsSignature: (path) => path === protectedPath,
    now: () => clock.time,
  })
  return { settings, signedUrls, clock }
}
type Tap = Pick<typeof t, 'testdir' | 'teardown'>

void t.test('signatures equal those that API clients compute themselves', async (t) => {
  const { signedUrls } = await opened(t)
  t.equal(signedUrls.sign(file), known)
  t.equal(signedUrls.sign(file), known)
  const principal = signedUrls.verify(file, known, http)
  t.match(principal, { onlyPath: file, protocol: http, base: '/', permissions: 0, role: 'guest' })
  t.equal(principal.signal.aborted, false)
})

void t.test('an invalid signature is rejected with its detail', async (t) => {
  const { signedUrls, clock } = await opened(t, { link_expiration: '2' })
  const refused = (path: string, signature: string | undefined, detail: ErrorDetail): void =>
    void t.throws(
      () => signedUrls.verify(asPath(path), signature, http),
      { code: 'unauthenticated', detail },
      `${signature}`,
    )
  refused('/a b.txt', undefined, 'signature_missing')
  refused('/a b.txt', '', 'signature_missing')
  refused('/a b.txt', 'abc:', 'signature_missing')
  refused('/a b.txt', 'abc', 'signature_malformed')
  refused('/a b.txt', 'abc:1.5', 'signature_malformed')
  refused('/a b.txt', 'abc:99999999999999999999', 'signature_malformed')
  refused('/a b.txt', 'abc:5', 'signature_expired')
  refused('/a b.txt', 'abc:-5', 'signature_expired')
  refused('/a b.txt', 'abc:0', 'signature_wrong')
  refused('/other', known, 'signature_wrong')
  refused('/a b.txt', known.replace(':0', ':00'), 'signature_wrong')
  refused('/a b.txt', known.replace('tG', 'tH'), 'signature_wrong')
  refused('/a b.txt', `é${known.slice(2)}`, 'signature_wrong')

  const signature = signedUrls.sign(file)
  t.match(signature, new RegExp(`:${(clock.time + 2 * hour) / 1000}$`))
  clock.time += 2 * hour - 1000
  signedUrls.verify(file, signature, http)
  clock.time += 2000
  refused('/a b.txt', signature, 'signature_expired')
})

void t.test('a signature for some time expires then, or when the setting says', async (t) => {
  const { signedUrls, settings, clock } = await opened(t)
  t.strictSame(signedUrls.signFor(file, 0), { signature: known, expires: undefined })
  const { signature, expires } = signedUrls.signFor(file, 60)
  t.same(expires, new Date(clock.time + 60_000))
  t.match(signature, new RegExp(`:${clock.time / 1000 + 60}$`))
  t.equal(signedUrls.verify(file, signature, http).onlyPath, file)
  clock.time += 61_000
  t.throws(() => signedUrls.verify(file, signature, http), { code: 'unauthenticated', detail: 'signature_expired' })
  await settings.set(new Map([['link_expiration', '2']]))
  for (const seconds of [0, 3 * 3600]) {
    t.same(signedUrls.signFor(file, seconds).expires, new Date(clock.time + 2 * hour), `${seconds}`)
  }
  t.same(signedUrls.signFor(file, 3600).expires, new Date(clock.time + hour))
})

void t.test('without a key, no URL is signed and no signature is accepted', async (t) => {
  const values = { get: () => '', bool: () => true, number: () => 0, onChange: () => () => undefined }
  const signedUrls = new SignedUrls({ settings: values, needsSignature: () => false })
  t.equal(signedUrls.sign(file), '')
  // The signature with an empty HMAC key.
  const { createHmac } = await import('node:crypto')
  const forged = `${createHmac('sha256', '').update(`${file}:0`).digest('base64url')}=:0`
  t.throws(() => signedUrls.verify(file, forged, http), { code: 'unauthenticated', detail: 'signature_wrong' })
})

void t.test('a new token revokes earlier signatures and the principals that used them', async (t) => {
  const { signedUrls, settings } = await opened(t)
  const { signal } = signedUrls.verify(file, known, http)
  await settings.set(new Map([['site_title', 'x']]))
  t.equal(signal.aborted, false)
  await settings.resetToken()
  t.equal(signal.aborted, true)
  t.throws(() => signedUrls.verify(file, known, http), { code: 'unauthenticated', detail: 'signature_wrong' })
  t.not(signedUrls.sign(file), known)
  t.equal(signedUrls.verify(file, signedUrls.sign(file), http).signal.aborted, false)
})

void t.test('without a signature, only unprotected files are authorized', async (t) => {
  const { signedUrls, settings } = await opened(t, {}, '/closed')
  await t.rejects(
    signedUrls.authorize(file, undefined, http),
    { code: 'unauthenticated', detail: 'signature_missing' },
    'sign_all',
  )
  t.equal((await signedUrls.authorize(file, known, http)).onlyPath, file)
  await settings.set(new Map([['sign_all', 'false']]))
  t.equal((await signedUrls.authorize(file, undefined, http)).onlyPath, file)
  t.equal((await signedUrls.authorize(file, 'nonsense', http)).onlyPath, file)
  await t.rejects(signedUrls.authorize(asPath('/closed'), undefined, http), {
    code: 'unauthenticated',
    detail: 'signature_missing',
  })
  t.equal((await signedUrls.authorize(asPath('/closed'), signedUrls.sign(asPath('/closed')), http)).onlyPath, '/closed')
})

void t.test('signatures without expiry are cached, up to a limit', async (t) => {
  const { signedUrls } = await opened(t)
  const paths = Array.from({ length: 3000 }, (_, n) => asPath(`/folder/${'x'.repeat(200)}/${n}`))
  const time = (runs = 1) =>
    processorTime(() => {
      for (const path of paths) signedUrls.sign(path)
    }, runs)
  const first = await time()
  t.ok((await time(3)) < first, 'the second time is faster')
  for (let n = 0; n < 20; n++) signedUrls.sign(asPath(`/${'y'.repeat(255)}/${'z'.repeat(3800)}${n}`))
  t.equal(signedUrls.sign(file), known)
})
