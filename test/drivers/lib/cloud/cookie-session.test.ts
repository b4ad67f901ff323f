/** Sessions of a cookie: what answers replace is stored before it is used. */
import t from 'tap'
import { openCookieSession } from '../../../../drivers/lib/cloud/cookie-session.js'
import { memoryState } from './vendor.js'

const options = { replaceable: ['b'], refusal: 'copy a new cookie' }

await t.test('parts that an answer replaces count when they are stored, and after a restart', async (t) => {
  const { state, failures } = memoryState()
  const { renewal, headers, received } = await openCookieSession({ ...options, state, typed: ' a=1; b=2;' })
  const sent = async () => headers(await renewal.get())
  t.same(await sent(), { cookie: 'a=1; b=2' })
  await received({ 'set-cookie': ['b=3; Path=/; Secure', 'a=9', 'c=9'] })
  t.same(await sent(), { cookie: 'a=1; b=3' }, 'others are ignored')
  failures.push(new Error('the disk is full'))
  await received({ 'set-cookie': ['b=4'] })
  t.same(await sent(), { cookie: 'a=1; b=3' }, 'it could not be stored')
  await Promise.all(['5', '6', '7'].map((value) => received({ 'set-cookie': [`b=${value}`] })))
  t.same(await sent(), { cookie: 'a=1; b=7' })
  await received({})
  const again = await openCookieSession({ ...options, state, typed: ' a=1; b=2;' })
  t.equal(again.renewal.current, 'a=1; b=7')
  const other = await openCookieSession({ ...options, state, typed: 'a=1; b=8' })
  t.equal(other.renewal.current, 'a=1; b=8', 'another cookie was typed')
})

await t.test(
  'a call that was sent with an older cookie is repeated, and a refusal of the current one is final',
  async (t) => {
    const { state } = memoryState()
    const { renewal, received } = await openCookieSession({ ...options, state, typed: 'a=1; b=2' })
    const old = await renewal.get()
    await received({ 'set-cookie': ['b=3'] })
    t.equal(await renewal.replace(old), 'a=1; b=3')
    await t.rejects(renewal.replace('a=1; b=3'), { code: 'denied', message: /copy a new cookie/ })
    await t.rejects(openCookieSession({ ...options, state, typed: ' ; ' }), { code: 'invalid' })
  },
)
