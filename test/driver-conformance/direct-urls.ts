/** The contract of `directUrl()`: what the URL leads to, and for whom. */
import { at, makeFolder, put, refuses, without, type Run } from './subject.js'

export async function directUrlTests(run: Run): Promise<void> {
  await run(
    'directUrl() of a missing file or a folder rejects',
    async (t, subject) => {
      const { driver } = subject
      await makeFolder(subject, '/folder')
      const directUrl = async (path: string) => driver.directUrl?.(at(path))
      await refuses(t, () => directUrl('/none'), 'not_found', 'a missing file')
      await refuses(t, () => directUrl('/folder'), ['is_folder', 'unsupported'], 'a folder')
    },
    without('directUrl'),
  )

  await run(
    'directUrl() leads to the content, for the client that the trait names only',
    async (t, { driver, traits, fetchDirectUrl: fetch }) => {
      if (!fetch) {
        t.pass('fetching it', { skip: 'the test has no way to fetch direct URLs' })
        return
      }
      await put(driver, '/file', 'hello')
      const client = { userAgent: 'a player', address: '127.0.0.1' }
      const asked = Object.fromEntries(traits.urlsBoundTo.map((part) => [part, client[part]]))
      const url = await driver.directUrl?.(at('/file'), asked)
      if (!url) return
      t.equal(await fetch(url, client), 'hello')
      if (url.until) t.ok(url.until.getTime() > Date.now(), 'it has not expired')
      const isBound = traits.urlsBoundTo.includes('userAgent')
      const other = await fetch(url, { ...client, userAgent: 'another player' })
      if (!isBound) t.equal(other, 'hello', 'it is valid for any client')
      else t.ok(other === undefined || other === 'hello', 'another client receives the content, or nothing')
      const forAnyone = await driver.directUrl?.(at('/file'))
      if (forAnyone)
        t.equal(await fetch(forAnyone, { userAgent: 'a third' }), 'hello', 'with its headers, for everyone')
    },
    without('directUrl'),
  )
}
