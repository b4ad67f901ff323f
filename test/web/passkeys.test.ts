/** Passkeys in the console, with the virtual authenticator of Chromium. */
import { generateSync } from 'otplib'
import type { CDPSession, Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { newOtpSecret } from '../../src/accounts/otp.js'
import { moveClock } from '../moved-clock.js'
import { axeViolations, eventually, withoutBrowser } from './browser.js'
import { button, createUser, dialog, files, startSite, visit, type Site, type VisitOptions } from './site.js'

const minutes = 60_000
const nobody = { user: null }
const byPasskey = 'Sign in with a passkey'
const instead = 'Use a passkey instead'

/** A device with passkeys, of which tests take copies (Chrome DevTools Protocol, WebAuthn). */
class VirtualAuthenticator {
  private constructor(
    private readonly session: CDPSession,
    private readonly authenticatorId: string,
  ) {}

  /** A device that has verified its user. It belongs to the page. */
  static async of(page: Page): Promise<VirtualAuthenticator> {
    const session = await page.context().newCDPSession(page)
    await session.send('WebAuthn.enable')
    const { authenticatorId } = await session.send('WebAuthn.addVirtualAuthenticator', {
      options: {
        protocol: 'ctap2',
        transport: 'internal',
        hasResidentKey: true,
        hasUserVerification: true,
        isUserVerified: true,
        automaticPresenceSimulation: true,
      },
    })
    return new VirtualAuthenticator(session, authenticatorId)
  }

  async held() {
    const { authenticatorId } = this
    return (await this.session.send('WebAuthn.getCredentials', { authenticatorId })).credentials
  }

  async hold(credential: Awaited<ReturnType<VirtualAuthenticator['held']>>[number]): Promise<void> {
    await this.session.send('WebAuthn.addCredential', { authenticatorId: this.authenticatorId, credential })
  }

  /** Whether its user unlocks it. */
  async setVerified(isUserVerified: boolean): Promise<void> {
    const { authenticatorId } = this
    await this.session.send('WebAuthn.setUserVerified', { authenticatorId, isUserVerified })
  }
}

/** The site at the name under which browsers accept passkeys without TLS. */
async function localSite(t: Test): Promise<Site> {
  const site = await startSite(t)
  await site.call('/api/admin/setting/save', [{ key: 'webauthn_login_enabled', value: 'true' }])
  return { ...site, url: site.url.replace('127.0.0.1', 'localhost') }
}

const profileOf = (username: string): VisitOptions => ({ user: { username, password: 'password' }, at: '/@profile' })

async function add(page: Page, name: string): Promise<void> {
  await button(page, 'Add a passkey').click()
  const form = dialog(page, 'Add a passkey')
  await form.getByLabel('Name').fill(name)
  await form.getByRole('button', { name: 'Add', exact: true }).click()
  await page.getByRole('cell', { name, exact: true }).waitFor()
}

t.beforeEach(() => moveClock(0))
t.teardown(() => moveClock(0))

void t.test('passkeys', { skip: withoutBrowser }, async (t) => {
  const site = await localSite(t)
  for (const username of ['ann', 'twice', 'recent', 'copied', 'coded']) await createUser(site, username)

  await t.test('one is added, renamed, used without a name, and removed', (t) =>
    visit(t, site, profileOf('ann'), async (page) => {
      const device = await VirtualAuthenticator.of(page)
      await add(page, 'phone')
      await page.getByRole('status').getByText('The passkey is added.').waitFor()
      await page.getByRole('row', { name: /phone.*never/ }).waitFor()
      t.strictSame(await axeViolations(page), [])
      await button(page, 'Rename phone').click()
      await dialog(page, 'Rename the passkey').getByLabel('Name').fill('my phone')
      t.strictSame(await axeViolations(page), [])
      await page.keyboard.press('Enter')
      await page.getByRole('cell', { name: 'my phone', exact: true }).waitFor()

      await button(page, 'Add a passkey').click()
      const again = dialog(page, 'Add a passkey')
      await again.getByLabel('Name').press('Enter')
      await again.getByRole('alert').getByText('has a passkey for your account already').waitFor()
      await again.getByRole('button', { name: 'Cancel' }).click()

      await button(page, 'Sign out').click()
      await button(page, byPasskey).waitFor()
      t.strictSame(await axeViolations(page), [])
      await device.setVerified(false)
      await button(page, byPasskey).click()
      await page.getByRole('alert').getByText('No passkey was used.').waitFor()
      await device.setVerified(true)
      await button(page, byPasskey).click()
      await page.getByRole('row', { name: /my phone/ }).waitFor()
      t.equal(await page.getByRole('row', { name: /my phone.*never/ }).count(), 0, 'its last use is shown')

      await button(page, 'Remove my phone').click()
      await button(page, 'Delete').click()
      await page.getByRole('cell', { name: 'my phone', exact: true }).waitFor({ state: 'detached' })
      await button(page, 'Sign out').click()
      await button(page, byPasskey).click()
      await page.getByRole('alert').getByText('the passkey was not accepted').waitFor()
      t.equal((await device.held()).length, 1, 'the device still has it')
    }),
  )

  await t.test('it is the second step after a password', (t) =>
    visit(t, site, profileOf('twice'), async (page) => {
      await VirtualAuthenticator.of(page)
      await add(page, 'key')
      const { users } = site.gateway.accounts
      await users.update(users.byName('twice')!.id, { otpSecret: newOtpSecret() })
      await button(page, 'Sign out').click()
      await page.getByRole('textbox', { name: 'Username' }).fill('twice')
      await page.getByRole('textbox', { name: 'Password' }).fill('password')
      await button(page, 'Sign in').click()
      await page.getByRole('textbox', { name: 'One-time code' }).waitFor()
      t.strictSame(await axeViolations(page), [])
      await button(page, instead).click()
      await page.getByRole('cell', { name: 'key', exact: true }).waitFor()
    }),
  )

  await t.test('it confirms a session that is older than ten minutes', (t) =>
    visit(t, site, profileOf('recent'), async (page) => {
      await VirtualAuthenticator.of(page)
      await add(page, 'key')
      moveClock(10 * minutes)
      await button(page, 'Remove key').click()
      await button(page, 'Delete').click()
      const asked = dialog(page, 'Confirm that it is you')
      await asked.getByRole('button', { name: instead }).waitFor()
      t.strictSame(await axeViolations(page), [])
      await asked.getByRole('button', { name: instead }).click()
      await page.getByRole('cell', { name: 'key', exact: true }).waitFor({ state: 'detached' })
      await eventually(t, () => asked.count(), 0)
    }),
  )

  await t.test('a copied one is found by its counter', (t) =>
    visit(t, site, profileOf('copied'), async (page) => {
      const device = await VirtualAuthenticator.of(page)
      await add(page, 'key')
      const [copy] = await device.held()
      if (copy === undefined) throw new Error('the device has no passkey')
      for (let time = 0; time < 2; time++) {
        await button(page, 'Sign out').click()
        await button(page, byPasskey).click()
        await page.getByRole('cell', { name: 'key', exact: true }).waitFor()
      }
      await visit(t, site, nobody, async (other) => {
        const clone = await VirtualAuthenticator.of(other)
        await clone.hold(copy)
        await button(other, byPasskey).click()
        await other.getByRole('alert').getByText('the passkey was not accepted').waitFor()
        t.equal(await files(other).count(), 0)
      })
    }),
  )

  await t.test('an account with two-step verification adds one with a code', (t) =>
    visit(t, site, profileOf('coded'), async (page) => {
      await VirtualAuthenticator.of(page)
      const { users } = site.gateway.accounts
      const secret = newOtpSecret()
      await users.update(users.byName('coded')?.id ?? 0, { otpSecret: secret })
      await button(page, 'Add a passkey').click()
      const form = dialog(page, 'Add a passkey')
      await form.getByLabel('Name').fill('phone')
      const confirm = form.getByRole('button', { name: 'Add', exact: true })
      await confirm.click()
      await form.getByText('Enter the one-time code').waitFor()
      t.strictSame(await axeViolations(page), [])
      await form.getByLabel('One-time code').fill('000000')
      await confirm.click()
      await form.getByText('The code is wrong').waitFor()
      await form.getByLabel('One-time code').fill(generateSync({ secret }))
      await confirm.click()
      await page.getByRole('cell', { name: 'phone', exact: true }).waitFor()
    }),
  )

  await t.test('there is no button while they are off, and the list remains', async (t) => {
    await site.call('/api/admin/setting/save', [{ key: 'webauthn_login_enabled', value: 'false' }])
    await visit(t, site, nobody, async (page) => {
      await button(page, 'Sign in').waitFor()
      t.equal(await button(page, byPasskey).count(), 0)
    })
    await visit(t, site, profileOf('copied'), async (page) => {
      await button(page, 'Remove key').waitFor()
      t.equal(await button(page, 'Add a passkey').count(), 0)
    })
    await site.call('/api/admin/setting/save', [{ key: 'webauthn_login_enabled', value: 'true' }])
  })

  await t.test('dark and narrow pages are accessible too', (t) =>
    visit(t, site, { ...profileOf('copied'), colors: 'dark', width: 360, height: 740 }, async (page) => {
      await button(page, 'Add a passkey').waitFor()
      t.strictSame(await axeViolations(page), [])
      await button(page, 'Sign out').click()
      await button(page, byPasskey).waitFor()
      t.strictSame(await axeViolations(page), [])
    }),
  )
})
