/** The page of who is connected and signed in now. */
import { once } from 'node:events'
import ssh2 from 'ssh2'
import t from 'tap'
import { axeViolations, withoutBrowser } from './browser.js'
import { createUser, startSite, tableRow, visit } from './site.js'

void t.test('connections', { skip: withoutBrowser }, async (t) => {
  const site = await startSite(t, { driver: { name: 'Memory' } })

  await t.test('who is connected and signed in is shown, and disconnected', async (t) => {
    await createUser(site, 'carl')
    const client = new ssh2.Client()
    t.teardown(() => client.end())
    client.connect({ host: '127.0.0.1', port: site.sftpPort, username: 'carl', password: 'password' })
    const failed = once(client, 'error').catch(() => undefined)
    const isAllowed = await Promise.race([once(client, 'ready').then(() => true), failed.then(() => false)])
    t.equal(isAllowed, true)
    await visit(t, site, { user: { username: 'carl', password: 'password' } }, (other) =>
      visit(t, site, { at: '/@manage/connections' }, async (page) => {
        const connection = tableRow(page, 'Connections', 'carl')
        await connection.getByRole('cell', { name: 'SFTP' }).waitFor()
        t.strictSame(await axeViolations(page), [])
        const closed = once(client, 'close')
        await connection.getByRole('button', { name: 'Disconnect carl, 127.0.0.1' }).click()
        await closed
        await connection.waitFor({ state: 'detached' })
        const browser = tableRow(page, 'Signed-in browsers', 'carl')
        await browser.getByRole('button', { name: 'Sign out carl' }).click()
        await browser.waitFor({ state: 'detached' })
        const answer = await other.request.get('/api/me')
        t.match(await answer.json(), { code: 401 })
      }),
    )
  })
})
