/** Uploads by the console, in Chromium. */
import { createHash, randomBytes } from 'node:crypto'
import { createReadStream, createWriteStream, existsSync } from 'node:fs'
import { mkdir, readdir, readFile, stat, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { setTimeout as wait } from 'node:timers/promises'
import type { Locator, Page, Route } from 'playwright-core'
import t, { type Test } from 'tap'
import { MemoryDriver } from '../../drivers/memory/memory.js'
import type { AnyDriverType } from '../../src/contract/driver-type.js'
import { GatewayError } from '../../src/base/errors.js'
import { flaky } from '../drivers/flaky.js'
import { startDaemon, startGateway, type Daemon } from '../gateway.js'
import { startCuttingProxy, type CuttingProxy } from '../servers/cutting-proxy.js'
import { marker } from '../stored-files.js'
import { axeViolations, eventually, openPage, signIn, startBrowser, withoutBrowser } from './browser.js'
import { browserMemory } from './browser-memory.js'

const mebibyte = 1024 * 1024
const largeSize = Number(process.env.TIDEGATE_LARGE_MIB ?? 96) * mebibyte

/** The console of a new daemon, behind a proxy that can cut its connections, at `/`. */
interface Console {
  readonly page: Page
  readonly complaints: readonly string[]
  readonly daemon: Daemon
  readonly proxy: CuttingProxy
  /** The folder that is `/`. */
  readonly files: string
}

async function openConsole(t: Test): Promise<Console> {
  const daemon = await startDaemon(t)
  const proxy = await startCuttingProxy(Number(new URL(daemon.url).port))
  t.teardown(() => proxy.stop())
  const browser = await startBrowser()
  const { page, complaints } = await openPage(browser, `http://127.0.0.1:${proxy.port}`)
  await signIn(page, 'admin', daemon.adminPassword)
  await show(page, '/')
  return { page, complaints, daemon, proxy, files: join(daemon.dataFolder, 'files') }
}

async function show(page: Page, folder: string): Promise<void> {
  await page.goto(folder)
  await page.getByRole('button', { name: 'Upload', exact: true, disabled: false }).waitFor()
}

type Chosen = string | { readonly name: string; readonly content: string | Buffer }

async function choose(page: Page, chosen: Chosen | readonly Chosen[], button = 'Upload'): Promise<void> {
  // What was uploaded before does not count.
  if ((await uploads(page).count()) > 0) {
    await uploads(page).getByRole('button', { name: 'Close' }).click()
    await uploads(page).waitFor({ state: 'detached' })
  }
  const [chooser] = await Promise.all([
    page.waitForEvent('filechooser'),
    page.getByRole('button', { name: button, exact: true }).click(),
  ])
  const all = [chosen].flat() as readonly Chosen[]
  if (all.every((each) => typeof each === 'string')) await chooser.setFiles(all)
  else {
    await chooser.setFiles(
      all.flatMap((each) =>
        typeof each === 'string'
          ? []
          : [{ name: each.name, mimeType: 'application/octet-stream', buffer: Buffer.from(each.content) }],
      ),
    )
  }
}

/** Drops files and folders of the disk onto the page. */
async function drop(page: Page, ...paths: readonly string[]): Promise<void> {
  const session = await page.context().newCDPSession(page)
  const data = { items: [], files: [...paths], dragOperationsMask: 1 }
  for (const type of ['dragEnter', 'dragOver', 'drop'] as const) {
    await session.send('Input.dispatchDragEvent', { type, x: 600, y: 400, data })
  }
}

/** Holds back all requests, after the code of uploads was loaded. */
async function stall({ page, proxy }: Console): Promise<void> {
  await choose(page, { name: 'first', content: 'first' })
  await stored(page, 1)
  proxy.stall()
}

function uploads(page: Page): Locator {
  return page.getByRole('region', { name: 'Uploads' })
}

/** The row of an upload. */
function row(page: Page, name: string): Locator {
  return uploads(page)
    .getByRole('listitem')
    .filter({ has: page.getByRole('progressbar', { name, exact: true }) })
}

/** Waits until all of `count` uploads are stored. */
async function stored(page: Page, count: number): Promise<void> {
  const number = count.toLocaleString('en-US')
  await uploads(page).getByText(`${number} of ${number}`, { exact: true }).waitFor({ timeout: 600_000 })
}

/** What the folder holds, below it too: folders end with a slash. */
async function contentOf(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  return entries
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1) + (entry.isDirectory() ? '/' : ''))
    .filter((name) => !name.startsWith('.tidegate-staging') && name !== marker)
    .sort()
}

async function digestOf(file: string): Promise<string> {
  const hash = createHash('sha256')
  await pipeline(createReadStream(file, { highWaterMark: mebibyte }), hash)
  return hash.digest('hex')
}

async function makeLarge(file: string, size: number): Promise<void> {
  const chunks = function* () {
    for (let made = 0; made < size; made += mebibyte) yield randomBytes(mebibyte)
  }
  await pipeline(Readable.from(chunks()), createWriteStream(file))
}

async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await condition())) await wait(20)
}

const options = { skip: withoutBrowser, timeout: 3_600_000 }

void t.test('chosen files are stored and listed, with their times, and progress', options, async (t) => {
  const { page, complaints, files } = await openConsole(t)
  const source = t.testdir({ 'tide.txt': 'high tide', empty: '' })
  await utimes(join(source, 'tide.txt'), 1e9, 1e9)
  await choose(page, [join(source, 'tide.txt'), join(source, 'empty')])
  await stored(page, 2)
  await page.getByRole('status').getByText('2 files uploaded').waitFor()
  for (const name of ['tide.txt', 'empty']) {
    const progress = uploads(page).getByRole('progressbar', { name, exact: true })
    const [value, max] = [await progress.getAttribute('value'), await progress.getAttribute('max')]
    t.equal(value, max, `${name} is complete`)
    await page.getByRole('row', { name }).waitFor()
  }
  t.equal(await readFile(join(files, 'tide.txt'), 'utf8'), 'high tide')
  t.equal((await stat(join(files, 'tide.txt'))).mtimeMs, 1e12)
  t.equal((await stat(join(files, 'empty'))).size, 0)
  t.same(await axeViolations(page), [])
  await uploads(page).getByRole('button', { name: 'Details' }).click()
  await eventually(t, () => uploads(page).getByRole('listitem').count(), 0, 'the region is collapsed')
  await uploads(page).getByRole('button', { name: 'Close' }).click()
  await uploads(page).waitFor({ state: 'detached' })
  t.same(complaints, [])
})

void t.test('a dropped tree is stored whole, with its empty folders and any names', options, async (t) => {
  const { page, complaints, files } = await openConsole(t)
  const source = t.testdir({
    tree: { 'ü%41 #&+?.txt': 'awkward', nothing: {}, deep: { er: { 'b.txt': 'b' } } },
    'single.txt': 'single',
  })
  await mkdir(join(files, 'shown'))
  await show(page, '/shown')
  await drop(page, join(source, 'tree'), join(source, 'single.txt'))
  await stored(page, 4)
  t.same(await contentOf(join(files, 'shown')), [
    'single.txt',
    'tree/',
    'tree/deep/',
    'tree/deep/er/',
    'tree/deep/er/b.txt',
    'tree/nothing/',
    'tree/ü%41 #&+?.txt',
  ])
  t.equal(await readFile(join(files, 'shown/tree/ü%41 #&+?.txt'), 'utf8'), 'awkward')
  await page.getByRole('row', { name: 'tree' }).waitFor()
  await choose(page, join(source, 'tree/deep'), 'Choose a folder')
  await until(() => existsSync(join(files, 'shown/deep/er/b.txt')))
  t.same(complaints, [])
})

void t.test('the user chooses what happens to names that exist', options, async (t) => {
  const { page, complaints, files } = await openConsole(t)
  const names = ['one.txt', 'two.txt', 'three.txt', 'four.txt']
  await Promise.all(names.map((name) => writeFile(join(files, name), 'old')))
  const send = (...names: readonly string[]) =>
    choose(
      page,
      names.map((name) => ({ name, content: `new ${name}` })),
    )
  const answer = async (name: string, button: string, toAll = false) => {
    const dialog = page.getByRole('dialog', { name: `“${name}” already exists` })
    await dialog.waitFor()
    if (toAll) await dialog.getByRole('checkbox', { name: 'Apply to all' }).check()
    await dialog.getByRole('button', { name: button, exact: true }).click()
    await dialog.waitFor({ state: 'detached' })
  }
  const contents = async () =>
    Object.fromEntries(
      await Promise.all(
        (await contentOf(files)).map(async (name) => [name, await readFile(join(files, name), 'utf8')] as const),
      ),
    )

  await send('one.txt')
  await page.getByRole('dialog').waitFor()
  t.same(await axeViolations(page), [])
  await answer('one.txt', 'Cancel')
  await uploads(page).waitFor({ state: 'detached' })
  await send('one.txt')
  await answer('one.txt', 'Skip')
  await row(page, 'one.txt').getByText('Skipped').waitFor()
  t.same(await contents(), Object.fromEntries(names.map((name) => [name, 'old'])), 'nothing has changed')

  await send('one.txt')
  await answer('one.txt', 'Keep both')
  await stored(page, 1)
  await send('one.txt', 'two.txt')
  await answer('one.txt', 'Replace')
  await answer('two.txt', 'Keep both')
  await stored(page, 2)
  t.match(await contents(), {
    'one.txt': 'new one.txt',
    'one (1).txt': 'new one.txt',
    'two.txt': 'old',
    'two (1).txt': 'new two.txt',
  })

  await send('one.txt', 'two.txt', 'three.txt', 'four.txt', 'five.txt')
  await answer('one.txt', 'Keep both', true)
  await stored(page, 5)
  t.match(await contents(), {
    'one (2).txt': 'new one.txt',
    'two (2).txt': 'new two.txt',
    'three (1).txt': 'new three.txt',
    'four.txt': 'old',
    'five.txt': 'new five.txt',
  })
  t.same(complaints, [])
})

void t.test('a large file that exists is not sent before the user has chosen', options, async (t) => {
  const { page, files, proxy } = await openConsole(t)
  const source = t.testdir()
  await makeLarge(join(source, 'large'), 12 * mebibyte)
  await makeLarge(join(source, 'medium'), 5 * mebibyte)
  await Promise.all(['large', 'medium'].map((name) => writeFile(join(files, name), 'old')))
  let send = (): void => undefined
  const mayBeSent = new Promise<void>((resolve) => (send = resolve))
  const later = async (route: Route) => {
    await mayBeSent
    await route.continue()
  }
  await page.route('**/api/fs/multipart/init', later, { times: 1 })
  await choose(page, [join(source, 'large'), join(source, 'medium')])
  const dialog = page.getByRole('dialog')
  await dialog.waitFor()
  await row(page, 'medium').getByText('A file of this name exists').waitFor()
  t.ok(proxy.passed.up < mebibyte, `${proxy.passed.up} bytes were sent`)
  await dialog.getByRole('checkbox', { name: 'Apply to all' }).check()
  send()
  await row(page, 'large').getByText('A file of this name exists').waitFor()
  t.ok(await dialog.getByRole('checkbox', { name: 'Apply to all' }).isChecked(), 'the dialog stays as it was')
  await dialog.getByRole('button', { name: 'Replace' }).click()
  await stored(page, 2)
  for (const name of ['large', 'medium']) t.equal(await digestOf(join(files, name)), await digestOf(join(source, name)))
})

void t.test('the user is also asked if a file is made while one of its name is sent', options, async (t) => {
  const { page, files } = await openConsole(t)
  const source = join(t.testdir(), 'large')
  await makeLarge(source, 12 * mebibyte)
  const meanwhile = async (route: Route) => {
    await writeFile(join(files, 'large'), 'meanwhile')
    await route.continue()
  }
  await page.route('**/api/fs/multipart/complete', meanwhile, { times: 1 })
  await choose(page, source)
  await page.getByRole('dialog').getByRole('button', { name: 'Keep both' }).click()
  await stored(page, 1)
  t.equal(await readFile(join(files, 'large'), 'utf8'), 'meanwhile')
  t.equal(await digestOf(join(files, 'large (1)')), await digestOf(source))
})

void t.test('thousands of files are uploaded by one request each, and few rows are drawn', options, async (t) => {
  const { page, complaints, files } = await openConsole(t)
  const source = t.testdir()
  const [folders, each] = [20, 100]
  for (let folder = 0; folder < folders; folder++) {
    await mkdir(join(source, `f${folder}`))
    for (let file = 0; file < each; file++)
      await writeFile(join(source, `f${folder}`, `${file}.txt`), `${folder} ${file}`)
  }
  const requests: Record<string, number> = {}
  page.on('request', (request) => {
    const { pathname } = new URL(request.url())
    requests[pathname] = (requests[pathname] ?? 0) + 1
  })
  const began = performance.now()
  await drop(page, ...Array.from({ length: folders }, (_, folder) => join(source, `f${folder}`)))
  await uploads(page).getByRole('listitem').first().waitFor()
  let most = 0
  const sampling = (async () => {
    while ((await uploads(page).getByText('2,000 of 2,000').count()) === 0) {
      most = Math.max(most, await uploads(page).getByRole('listitem').count())
      await wait(50)
    }
  })()
  await stored(page, folders * each)
  await sampling
  const seconds = (performance.now() - began) / 1000
  t.same(await contentOf(files), await contentOf(source))
  t.equal(await readFile(join(files, 'f3/33.txt'), 'utf8'), '3 33')
  t.equal(requests['/api/fs/put'], folders * each)
  t.equal(requests['/api/fs/get'] ?? 0, 0, 'no file was asked for')
  t.ok((requests['/api/fs/list'] ?? 0) <= 2 * seconds + 2, 'the folder was listed at most twice a second')
  t.ok(most > 0 && most < 40, `${most} rows were in the document at once`)
  t.same(complaints, [])
})

void t.test('uploads are paused, resumed and cancelled, one by one and all', options, async (t) => {
  const opened = await openConsole(t)
  const { page, complaints, proxy, files } = opened
  const source = t.testdir()
  await makeLarge(join(source, 'large'), 30 * mebibyte)
  const small = ['one', 'two', 'three', 'four', 'five'].map((name) => ({ name, content: Buffer.alloc(300_000, name) }))
  await stall(opened)
  await choose(page, small)
  await row(page, 'one').getByRole('button', { name: 'Pause one' }).click()
  await row(page, 'one').getByText('Paused').waitFor()
  await row(page, 'two').getByRole('button', { name: 'Cancel two' }).click()
  await row(page, 'two').waitFor({ state: 'detached' })
  await uploads(page).getByRole('button', { name: 'Pause all' }).click()
  await row(page, 'five').getByText('Paused').waitFor()
  proxy.heal()
  await wait(500)
  t.same(await contentOf(files), ['first'], 'nothing is stored while all is paused')
  await row(page, 'one').getByRole('button', { name: 'Resume one' }).click()
  await row(page, 'one').getByText('Uploaded').waitFor()
  t.same(await contentOf(files), ['first', 'one'])
  await uploads(page).getByRole('button', { name: 'Resume all' }).click()
  await stored(page, 4)
  t.same(await contentOf(files), ['first', 'five', 'four', 'one', 'three'].sort())

  const chunks: (string | undefined)[] = []
  page.on('request', (request) => {
    if (request.url().includes('/multipart/chunk')) chunks.push(request.headers()['x-chunk-index'])
  })
  const firstChunk = page.waitForResponse((response) => response.url().includes('/multipart/chunk'))
  await choose(page, join(source, 'large'))
  await firstChunk
  // Otherwise the upload may end before the click.
  proxy.stall()
  await row(page, 'large').getByRole('button', { name: 'Pause large' }).click()
  await row(page, 'large').getByText('Paused').waitFor()
  proxy.heal()
  await row(page, 'large').getByRole('button', { name: 'Resume large' }).click()
  await stored(page, 1)
  t.equal(await digestOf(join(files, 'large')), await digestOf(join(source, 'large')))
  t.equal(chunks.filter((index) => index === '0').length, 1, 'a paused upload has continued')

  await makeLarge(join(source, 'other'), 30 * mebibyte)
  const then = proxy.passed.up
  await choose(page, join(source, 'other'))
  await until(() => proxy.passed.up > then + mebibyte)
  proxy.stall()
  await uploads(page).getByRole('button', { name: 'Cancel all' }).click()
  await uploads(page).waitFor({ state: 'detached' })
  proxy.heal()
  await until(async () => (await readdir(join(files, '.tidegate-staging'), { recursive: true })).length <= 1)
  t.notOk((await contentOf(files)).includes('other'))
  t.same(complaints, [])
})

void t.test('a large upload continues after lost connections, in flat memory', options, async (t) => {
  const { page, complaints, proxy, files } = await openConsole(t)
  const file = join(t.testdir(), 'large')
  await makeLarge(file, largeSize)
  const before = await browserMemory()
  let peak = before
  const timer = setInterval(() => void browserMemory().then((now) => (peak = Math.max(peak, now))), 200)
  t.teardown(() => clearInterval(timer))
  const begun = proxy.passed.up
  await choose(page, file)
  for (const part of [0.2, 0.5]) {
    await until(() => proxy.passed.up > begun + part * largeSize)
    proxy.cut('up', 1)
    proxy.drop()
    await row(page, 'large').getByText('Waiting for the server').waitFor()
    proxy.heal()
  }
  await stored(page, 1)
  clearInterval(timer)
  t.equal(await digestOf(join(files, 'large')), await digestOf(file))
  const sent = proxy.passed.up - begun
  t.ok(sent < largeSize + 2 * 2.5 * 10 * mebibyte, `${sent} bytes were sent for ${largeSize}`)
  const growth = Math.round((peak - before) / mebibyte)
  t.comment(`the browser's memory grew by ${growth} MiB`)
  t.ok(growth < 160, `the browser's memory grew by ${growth} MiB`)
  t.same(complaints, [])
})

void t.test('a file that is chosen again after a reload continues, and another one does not', options, async (t) => {
  const { page, proxy, files } = await openConsole(t)
  const source = t.testdir({ other: {} })
  const size = 40 * mebibyte
  await makeLarge(join(source, 'large'), size)
  await makeLarge(join(source, 'other/large'), size)
  await utimes(join(source, 'large'), 1e9, 1e9)
  await utimes(join(source, 'other/large'), 1e9, 1e9)
  page.on('dialog', (dialog) => void dialog.accept())
  const begin = async () => {
    const before = proxy.passed.up
    await choose(page, join(source, 'large'))
    await until(() => proxy.passed.up > before + 0.7 * size)
    proxy.cut('up', 1)
    proxy.drop()
    await row(page, 'large').getByText('Waiting for the server').waitFor()
    proxy.heal()
    await show(page, new URL(page.url()).pathname)
  }
  await begin()
  // The reloaded page may have gone on for a moment before it was closed.
  const before = proxy.passed.up
  await choose(page, join(source, 'large'))
  await stored(page, 1)
  t.equal(await digestOf(join(files, 'large')), await digestOf(join(source, 'large')))
  t.ok(proxy.passed.up - before < 0.9 * size, `${proxy.passed.up - before} bytes of ${size} were sent again`)

  await mkdir(join(files, 'second'))
  await show(page, '/second')
  await begin()
  await choose(page, join(source, 'other/large'))
  await stored(page, 1)
  t.equal(await digestOf(join(files, 'second/large')), await digestOf(join(source, 'other/large')), 'nothing is mixed')
})

void t.test('a closed tab warns while uploads are not finished', options, async (t) => {
  const opened = await openConsole(t)
  const { page, proxy } = opened
  const warned: string[] = []
  page.on('dialog', (dialog) => {
    warned.push(dialog.type())
    void dialog.dismiss()
  })
  await stall(opened)
  await choose(page, { name: 'one', content: 'one' })
  await row(page, 'one').waitFor()
  await page.close({ runBeforeUnload: true })
  await until(() => warned.length > 0)
  t.same(warned, ['beforeunload'])
  proxy.heal()
  await stored(page, 1)
  const closed = page.waitForEvent('close')
  await page.close({ runBeforeUnload: true })
  await closed
  t.same(warned, ['beforeunload'], 'nothing is asked once all is stored')
})

void t.test('failures are explained in place and can be retried', options, async (t) => {
  let isFull = true
  const full: AnyDriverType = {
    name: 'Full',
    fields: {},
    open: async () => {
      const driver = new MemoryDriver(0)
      const refusing = flaky(driver, [
        { method: 'write', fault: { kind: 'fail', error: new GatewayError('no_space') } },
      ]).driver
      return new Proxy(driver, {
        get(target, name: keyof MemoryDriver) {
          const value: unknown = Reflect.get(isFull && name === 'write' ? refusing : target, name)
          return typeof value === 'function' ? (value.bind(target) as unknown) : value
        },
      })
    },
  }
  const { url, adminPassword } = await startGateway(t, { driverTypes: [full], driver: { name: 'Full' } })
  const { page, complaints } = await openPage(await startBrowser(), url)
  await signIn(page, 'admin', adminPassword)
  await show(page, '/')
  await choose(page, [
    { name: 'one', content: 'one' },
    { name: 'two', content: 'two' },
  ])
  await page.getByRole('alert').getByText('2 files could not be uploaded.').waitFor()
  await row(page, 'one').getByText('There is not enough space').waitFor()
  t.same(await axeViolations(page), [])
  isFull = false
  await row(page, 'one').getByRole('button', { name: 'Retry one' }).click()
  await page.getByRole('alert').getByText('1 file could not be uploaded.').waitFor()
  await uploads(page).getByRole('button', { name: 'Retry all' }).click()
  await page.getByRole('row', { name: 'two' }).waitFor()
  await page.getByRole('alert').waitFor({ state: 'detached' })
  t.same(complaints, [])
})

void t.test('uploads go on after the session has ended and the same user has signed in', options, async (t) => {
  const { page, proxy, files } = await openConsole(t)
  const file = join(t.testdir(), 'large')
  await makeLarge(file, 40 * mebibyte)
  const before = proxy.passed.up
  await choose(page, file)
  await until(() => proxy.passed.up > before + 15 * mebibyte)
  await page.context().clearCookies()
  await page.getByRole('button', { name: 'Sign in' }).waitFor()
  await page.getByRole('textbox', { name: 'Username' }).fill('admin')
  await page.getByRole('textbox', { name: 'Password' }).fill('a password for tests')
  await page.getByRole('button', { name: 'Sign in' }).click()
  await row(page, 'large').getByText('You are signed out').waitFor()
  await row(page, 'large').getByRole('button', { name: 'Retry large' }).click()
  await stored(page, 1)
  t.equal(await digestOf(join(files, 'large')), await digestOf(file))
})

void t.test('uploads wait for their owner while the guest is shown', options, async (t) => {
  const { url, gateway, adminPassword } = await startGateway(t)
  const { page, complaints } = await openPage(await startBrowser(), url)
  const { users } = gateway.accounts
  await users.update(users.byUniqueRole('guest')?.id ?? 0, { disabled: false })
  await signIn(page, 'admin', adminPassword)
  await show(page, '/')
  await page.route('**/api/fs/put', () => undefined)
  await choose(page, { name: 'one', content: 'one' })
  await row(page, 'one').waitFor()
  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.getByRole('link', { name: 'Sign in' }).click()
  // Others do not see them.
  await uploads(page).waitFor({ state: 'detached' })
  await page.unroute('**/api/fs/put')
  await page.getByRole('textbox', { name: 'Username' }).fill('admin')
  await page.getByRole('textbox', { name: 'Password' }).fill(adminPassword)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await row(page, 'one').getByRole('button', { name: 'Resume one' }).click()
  await stored(page, 1)
  t.same(complaints, [])
})

void t.test('uploads work with the keyboard alone', options, async (t) => {
  const opened = await openConsole(t)
  const { page, proxy, files } = opened
  const focused = async (locator: Locator) => (await locator.and(page.locator(':focus')).count()) > 0
  const tabTo = async (locator: Locator) => {
    // The buttons for all uploads follow the state of one a moment later.
    await locator.waitFor()
    for (let presses = 0; !(await focused(locator)); presses++) {
      if (presses > 60) throw new Error('the keyboard does not reach it')
      await page.keyboard.press('Tab')
    }
  }
  await stall(opened)
  // Choosers are intercepted from here on, not only while one is awaited.
  page.on('filechooser', (chooser) => {
    void chooser.setFiles({ name: 'one', mimeType: '', buffer: Buffer.alloc(300_000) })
  })
  await tabTo(page.getByRole('button', { name: 'Upload', exact: true }))
  await page.keyboard.press('Enter')
  await row(page, 'one').waitFor()
  await tabTo(uploads(page).getByRole('button', { name: 'Pause one' }))
  await page.keyboard.press('Enter')
  await row(page, 'one').getByText('Paused').waitFor()
  proxy.heal()
  await tabTo(uploads(page).getByRole('button', { name: 'Resume all' }))
  await page.keyboard.press('Enter')
  await stored(page, 1)
  t.same(await contentOf(files), ['first', 'one'])
})
