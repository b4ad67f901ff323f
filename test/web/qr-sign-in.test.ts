/** The form of a storage signs in at a cloud drive by a QR code. */
import t from 'tap'
import { start115 } from '../doubles/115/index.js'
import { startQuark } from '../doubles/quark.js'
import { until } from '../until.js'
import { axeViolations, withoutBrowser } from './browser.js'
import { button, dialog, startSite, visit } from './site.js'

void t.test('sign-in by a QR code', { skip: withoutBrowser }, async (t) => {
  const site = await startSite(t)

  await t.test('the app of 115 scans and confirms the code, and the form has the cookie', async (t) => {
    const double = await start115(t)
    await visit(t, site, { at: '/@manage/storages' }, async (page) => {
      await button(page, 'Add a storage').click()
      const form = dialog(page, 'Add a storage')
      await form.getByRole('combobox', { name: 'Driver' }).selectOption('115 Cloud')
      await form.getByRole('textbox', { name: 'Mount path' }).fill('/drive')
      await form.getByRole('button', { name: 'Sign in with a QR code' }).click()
      await form.getByRole('img', { name: 'QR code' }).waitFor()
      await form.getByText('Scan the code with the app').waitFor()
      t.strictSame(await axeViolations(page), [])
      // The uid is in the questions of the server.
      const asked = () => double.requests.matching(/get\/status/)
      await until(() => asked().length > 0)
      const uid = new URL(asked()[0]?.path ?? '', 'https://localhost').searchParams.get('uid') ?? ''
      double.account.setCode(uid, 1)
      await form.getByText('The code is scanned.').waitFor()
      double.account.setCode(uid, 2)
      await form.getByText('You are signed in.').waitFor()
      t.match(await form.getByRole('textbox', { name: 'Cookie' }).inputValue(), /^UID=.*SEID=/)
      t.equal(await form.getByRole('img').count(), 0)
      await form.getByRole('button', { name: 'Save' }).click()
      await page.getByRole('cell', { name: '/drive', exact: true }).waitFor()
    })
  })

  await t.test(
    'a code that expires is replaced by a new one, and the form that is closed asks no further',
    async (t) => {
      const { qrCodes, requests, session } = await startQuark(t)
      await visit(t, site, { at: '/@manage/storages' }, async (page) => {
        await button(page, 'Add a storage').click()
        const form = dialog(page, 'Add a storage')
        await form.getByRole('combobox', { name: 'Driver' }).selectOption('Quark')
        requests.inject(/getTokenForQrcodeLogin/, { answer: 200, body: '{"status":50000001}' })
        await form.getByRole('button', { name: 'Sign in with a QR code' }).click()
        await form.getByRole('alert').getByText('The backend cannot be used.').waitFor()
        const begin = async () => {
          const asked = requests.matching(/getServiceTicketByQrcodeToken/).length
          await form.getByRole('button', { name: 'New code' }).click()
          await form.getByText('Scan the code with the app').waitFor()
          await until(() => requests.matching(/getServiceTicketByQrcodeToken/).length > asked)
          const last = requests.matching(/getServiceTicketByQrcodeToken/).at(-1)
          return new URL(last?.path ?? '', 'https://localhost').searchParams.get('token') ?? ''
        }
        qrCodes.set(await begin(), 'expired')
        await form.getByText('The code has expired.').waitFor()
        qrCodes.set(await begin(), 'confirmed')
        await form.getByText('You are signed in.').waitFor()
        const cookie = await form.getByLabel('Cookie').inputValue()
        t.match(session.cookie, new RegExp(/__pus=\w+/.exec(cookie)?.[0] ?? 'no cookie'))
        const held = new Promise<void>((resolve) => requests.inject(/getServiceTicket/, { holdAnswer: resolve }))
        await begin()
        await held
        const given = page.waitForEvent('requestfailed', (request) => request.url().includes('qr_answer'))
        await form.getByRole('button', { name: 'Cancel' }).click()
        await given
      })
    },
  )
})
