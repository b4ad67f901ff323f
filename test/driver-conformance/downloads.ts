/** The contract of `Driver.addDownload`, `findDownload` and `removeDownload`: the backend downloads into a folder. */
import { setTimeout as delay } from 'node:timers/promises'
import { randomUUID } from 'node:crypto'
import type { RemoteDownload } from '../../src/contract/capabilities.js'
import type { Driver } from '../../src/contract/driver.js'
import { at, namesIn, put, refuses, textAt, without, type Run, type Subject } from './subject.js'

type Downloading = Driver & Required<Pick<Driver, 'addDownload' | 'findDownload' | 'removeDownload'>>

/** An address that was not used before. */
const newAddress = () => `https://example.org/${randomUUID()}`

export async function downloadTests(run: Run): Promise<void> {
  const lacks = without('addDownload', 'findDownload', 'removeDownload')

  await run(
    'a download of the backend is found by its id and by its address, in its folder only',
    async (t, { driver }) => {
      const downloads = driver as Downloading
      for (const folder of ['/in', '/other']) await driver.mkdir(at(folder))
      const addresses = [newAddress(), newAddress()]
      const ids = [await downloads.addDownload(at('/in'), addresses[0] ?? '')]
      ids.push(await downloads.addDownload(at('/other'), addresses[1] ?? ''))
      for (const [index, folder] of ['/in', '/other'].entries()) {
        const [id = '', address = ''] = [ids[index], addresses[index]]
        const found = await downloads.findDownload(at(folder), { id, address })
        t.equal(found?.id, id)
        t.ok((found?.doneBytes ?? -1) <= (found?.totalBytes ?? -1))
        t.equal((await downloads.findDownload(at(folder), { address }))?.id, id, 'by its address')
        const elsewhere = folder === '/in' ? '/other' : '/in'
        t.equal(await downloads.findDownload(at(elsewhere), { id, address }), undefined, 'in another folder')
        t.equal(await downloads.findDownload(at(folder), { id: `${id}0`, address }), undefined, 'another id')
      }
      t.equal(await downloads.findDownload(at('/in'), { address: newAddress() }), undefined)
      await refuses(t, () => downloads.addDownload(at('/other'), addresses[0] ?? ''), 'exists', 'a listed address')
      await refuses(t, () => downloads.addDownload(at('/none'), newAddress()), 'not_found', 'a missing folder')
      await refuses(t, () => downloads.findDownload(at('/none'), { address: 'x' }), 'not_found', 'a missing folder')
    },
    lacks,
  )

  await run(
    'a complete download is in its folder, and stays there when it is removed from the list',
    async (t, subject) => {
      const { driver, finishDownload } = subject
      const downloads = driver as Downloading
      if (!finishDownload) {
        t.pass('a complete download', { skip: 'the test cannot complete downloads of the backend' })
        return
      }
      await driver.mkdir(at('/in'))
      await put(driver, '/in/mine', 'mine')
      const address = newAddress()
      const id = await downloads.addDownload(at('/in'), address)
      await finishDownload(address, 'file.bin', 'content')
      t.match(await downloads.findDownload(at('/in'), { id, address }), {
        state: 'done',
      } satisfies Partial<RemoteDownload>)
      await shown(subject, '/in', ['file.bin', 'mine'])
      t.equal(await textAt(driver, '/in/file.bin'), 'content')
      for (let times = 0; times < 2; times++) await downloads.removeDownload(at('/in'), id)
      t.equal(await downloads.findDownload(at('/in'), { id, address }), undefined)
      t.same(await namesIn(driver, '/in'), ['file.bin', 'mine'])
    },
    lacks,
  )

  await run(
    'a download that is removed with its files leaves nothing else out',
    async (t, subject) => {
      const { driver, finishDownload } = subject
      const downloads = driver as Downloading
      await driver.mkdir(at('/in'))
      await put(driver, '/in/mine', 'mine')
      const address = newAddress()
      const id = await downloads.addDownload(at('/in'), address)
      await finishDownload?.(address, 'file.bin', 'content')
      await downloads.removeDownload(at('/in'), id, { withFiles: true })
      await shown(subject, '/in', ['mine'])
      t.equal(await textAt(driver, '/in/mine'), 'mine')
      await downloads.addDownload(at('/in'), address)
      t.pass('the address can be downloaded again')
    },
    lacks,
  )
}

/** Waits until a folder lists these names: its listing may lag behind what the backend does by itself. */
async function shown({ driver, traits }: Subject, folder: string, names: readonly string[]): Promise<void> {
  const deadline = performance.now() + 2 * traits.listingLag + 1000
  for (;;) {
    const listed = await namesIn(driver, folder)
    if (listed.join('/') === names.join('/')) return
    if (performance.now() > deadline) throw new Error(`${folder} lists ${listed.join(', ')}`)
    await delay(50)
  }
}
