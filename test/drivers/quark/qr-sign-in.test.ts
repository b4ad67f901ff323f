/** The sign-in to Quark by a QR code. */
import t from 'tap'
import { quarkType } from '../../../drivers/quark/index.js'
import { startQuark } from '../../doubles/quark.js'
import { namesIn } from '../../driver-conformance/subject.js'
import { testEnv } from '../env.js'
import { openOn } from './mount.js'

const { qrSignIn } = quarkType
if (!qrSignIn) throw new Error('the driver has no such sign-in')
const begin = () => qrSignIn.begin({}, testEnv())
const ask = (ticket: string) => qrSignIn.ask(ticket, testEnv())

await t.test('the app scans the code, and the cookie that follows opens a storage', async (t) => {
  const double = await startQuark(t)
  const { qrCodes } = double
  for (const redirects of [false, true]) {
    qrCodes.redirects = redirects
    const { text, ticket } = await begin()
    const code = qrCodes.codeOf(text)
    t.strictSame(await ask(ticket), { state: 'waiting' })
    qrCodes.set(code, 'confirmed')
    const answer = await ask(ticket)
    if (answer.state !== 'confirmed') throw new Error(answer.state)
    t.match(answer.values, { cookie: /^__pus=\w+; __puus=\w+$/ })
    const driver = await openOn(double, { cookie: answer.values.cookie ?? '' })
    t.strictSame(await namesIn(driver, '/'), [])
    await driver.close?.()
    t.strictSame(await ask(ticket), { state: 'expired' }, 'it is used up')
  }
})

await t.test('a code expires, and answers without what is needed are errors', async (t) => {
  const { qrCodes, requests } = await startQuark(t)
  const { text, ticket } = await begin()
  const code = qrCodes.codeOf(text)
  qrCodes.set(code, 'expired')
  t.strictSame(await ask(ticket), { state: 'expired' })
  t.strictSame(await ask('made up&client_id=1'), { state: 'expired' })

  const status = (number: number, members: object = {}) => ({
    answer: 200,
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ status: number, data: { members } }),
  })
  for (const odd of [
    status(2_000_000),
    status(50_000_009),
    { ...status(1), body: '{}' },
    { ...status(1), body: '[' },
  ]) {
    requests.inject(/getTokenForQrcodeLogin/, odd)
    await t.rejects(begin(), { code: 'unavailable' })
  }
  requests.inject(/getServiceTicketByQrcodeToken/, status(2_000_000, { service_ticket: 'of nobody' }))
  await t.rejects(ask(ticket), { code: 'unavailable', reason: /gave no cookie/ })
  requests.inject(/getServiceTicketByQrcodeToken/, status(2_000_000, { service_ticket: 'x' }))
  requests.inject(/account\/info/, { answer: 302, headers: { location: 'https://cache.delivery.example/' } })
  await t.rejects(ask(ticket), { code: 'unavailable', reason: /gave no cookie/ })
  t.equal(requests.matching(/cache\.delivery/).length, 0, 'it does not follow to others')
  requests.inject(/getServiceTicketByQrcodeToken/, status(2_000_000, { service_ticket: 'x' }))
  requests.inject(/account\/info/, { answer: 302, headers: { location: '/account/info' } }, 20)
  await t.rejects(ask(ticket), { code: 'unavailable' })
  t.equal(requests.matching(/account\/info/).length, 1 + 1 + 6, 'redirects are limited')
})
