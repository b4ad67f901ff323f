/** The sign-in to 115 by a QR code, for a form. */
import t from 'tap'
import { askQrSignIn } from '../../../drivers/115/qr-sign-in.js'
import { cloud115Type, share115Type } from '../../../drivers/115/index.js'
import { start115 } from '../../doubles/115/index.js'
import { namesIn } from '../../driver-conformance/subject.js'
import { testEnv } from '../env.js'
import { openCloud } from './mount.js'

const { qrSignIn } = cloud115Type
if (!qrSignIn) throw new Error('the driver has no such sign-in')
const begin = (options: object = {}) => qrSignIn.begin({ ...options }, testEnv())
const ask = (ticket: string) => qrSignIn.ask(ticket, testEnv())
const uidOf = (ticket: string) => (JSON.parse(ticket) as { uid: string }).uid

await t.test('the app scans the code, and the cookie that follows opens a storage', async (t) => {
  const double = await start115(t)
  t.equal(share115Type.qrSignIn, qrSignIn)
  const { text, ticket } = await begin({ qrcode_source: 'tv' })
  const uid = uidOf(ticket)
  t.equal(text, `https://115.com/scan/dg-${uid}`)
  t.strictSame(await ask(ticket), { state: 'waiting' })
  double.account.setCode(uid, 1)
  t.strictSame(await ask(ticket), { state: 'scanned' })
  double.account.setCode(uid, 2)
  const answer = await ask(ticket)
  if (answer.state !== 'confirmed') throw new Error(answer.state)
  const { cookie = '', qrcode_token: token } = answer.values
  t.match(cookie, /^UID=.*; CID=.*; SEID=.*; KID=/)
  t.equal(token, '', 'an earlier code of the form does not count any more')
  t.equal(double.requests.matching(/tv\/1\.0\/login\/qrcode/).length, 1, 'as the device that was chosen')
  t.strictSame(await namesIn(await openCloud(t, double, { options: { cookie } }), '/'), [])
  t.strictSame(await ask(ticket), { state: 'expired' }, 'it is used up')
})

await t.test('a code expires, is refused, or waits for longer than an answer is waited for', async (t) => {
  const { account, requests } = await start115(t)
  const { ticket } = await begin({ qrcode_source: 'fridge' })
  t.match(JSON.parse(ticket), { kind: 'web' })
  for (const [status, state] of [
    [-1, 'expired'],
    [-2, 'refused'],
  ] as const) {
    account.setCode(uidOf(ticket), status)
    t.strictSame(await ask(ticket), { state })
  }
  requests.inject(/get\/status/, { holdAnswer: () => undefined })
  t.strictSame(await askQrSignIn(ticket, testEnv(), 50), { state: 'waiting' })
  t.strictSame(await ask(JSON.stringify({ uid: 'x', time: '1', sign: '2', kind: 'web' })), { state: 'expired' })
})

await t.test('what is no ticket is refused before 115 is asked, and odd answers are errors', async (t) => {
  const { requests } = await start115(t)
  for (const text of ['x', '{}', '[]', 'null', '{"uid":"x","kind":"../../../x"}', '{"uid":"","kind":"web"}']) {
    await t.rejects(ask(text), { code: 'invalid' }, text)
  }
  t.equal(requests.log.length, 0)
  requests.inject(/1\.0\/token/, { answer: 200, body: '{"state":1,"data":{"uid":"x"}}' })
  await t.rejects(begin(), { code: 'unavailable' })
})
