/** Replacing a file on FTP servers that cannot rename over an existing one, with the connection lost at each step. */
import { existsSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { GatewayError } from '../../../src/base/errors.js'
import { at, namesIn, put, refuses, textAt } from '../../driver-conformance/subject.js'
import { startFtpFront, type Fate } from '../../servers/ftp-front.js'
import { startPureFtpd, type PureFtpdOptions } from '../../servers/pure-ftpd.js'
import { emptyFolder, ftpSkip as skip, openFtpMount as open, started } from './mount.js'

/** Commands of a replacement after the server has refused to rename over the old file. */
const steps = ['RNFR old', 'RNTO backup', 'RNFR new', 'RNTO over', 'DELE backup']

/**
 * A server that cannot rename over an existing file. `fate` decides each renaming or deleting command, by number from
 * the first refusal.
 */
async function mounted(t: Test, options?: PureFtpdOptions) {
  const server = await started(t, () => startPureFtpd(options))
  const { files, path } = await emptyFolder(server)
  const seen = { step: -1, isAway: false, fate: (_step: number): Fate => 'pass' }
  const front = await startFtpFront(server.port, (command) => {
    if (seen.isAway) return 'lost'
    if (seen.step >= 0 && /^(RNFR|RNTO|DELE) /.test(command)) {
      const fate = seen.fate(seen.step++)
      if (fate !== 'pass') return fate
    }
    const [, target] = /^RNTO (.*)$/.exec(command) ?? []
    if (target === undefined || !existsSync(join(server.files, target))) return 'pass'
    if (seen.step < 0) seen.step = 0
    return { answer: '553 It exists.' }
  })
  t.teardown(() => front.stop())
  const errors: object[] = []
  const silent = () => undefined
  const log = { debug: silent, info: silent, warn: silent, error: (details: object) => errors.push(details) }
  const instance = { name: 'this-run', isOver: () => true }
  const driver = await open(server, path, { address: `127.0.0.1:${front.port}` }, { log, instance })
  t.teardown(() => driver.close?.())
  return { driver, files, seen, errors, front }
}

void t.test(
  'FTP: losing the connection at any step of a replacement leaves the old or the new file under its name',
  { skip },
  async (t) => {
    const { driver, files, seen, errors } = await mounted(t)
    await put(driver, '/file', 'old')
    for (const [lost, step] of steps.entries()) {
      for (const fate of ['lost', 'answer lost'] as const) {
        seen.step = -1
        seen.fate = (at) => (at === lost ? fate : 'pass')
        const failed = await put(driver, '/file', 'new').then(
          () => undefined,
          (error: unknown) => error as GatewayError,
        )
        const message = `${step}, ${fate}`
        t.ok(seen.step > lost, `${message}: the step was reached`)
        const isDone = lost > 3 || (lost === 3 && fate === 'answer lost')
        t.equal(failed?.code, isDone ? undefined : 'unavailable', message)
        t.same(await readdir(files), ['file'], `${message}: one file, under its name`)
        t.equal(await readFile(join(files, 'file'), 'utf8'), isDone ? 'new' : 'old', message)
        seen.step = 0
        seen.fate = () => 'pass'
        await put(driver, '/file', 'old')
      }
    }
    t.same(errors, [])
  },
)

void t.test(
  'FTP reports and logs the backup’s name if the server goes away in the middle of a replacement',
  { skip },
  async (t) => {
    const { driver, files, seen, errors } = await mounted(t)
    await put(driver, '/file', 'old')
    seen.fate = (step) => {
      seen.isAway = step === 2
      return seen.isAway ? 'lost' : 'pass'
    }
    const error = await put(driver, '/file', 'new').then(
      () => undefined,
      (reason: unknown) => reason as GatewayError,
    )
    const backup = (await readdir(files)).find((name) => name.startsWith('file~replaced-')) ?? 'none'
    t.equal(error?.code, 'unavailable')
    t.match(error?.message, backup)
    t.match(errors, [{ path: '/file', backup: `/${backup}` }])
    seen.isAway = false
    t.ok((await namesIn(driver, '/')).includes(backup), 'the backup is listed')
    t.equal(await textAt(driver, `/${backup}`), 'old', 'the backup remains although its instance is over')
  },
)

void t.test('FTP: a replacement that the server refuses leaves the old file', { skip }, async (t) => {
  const { driver, files, seen } = await mounted(t)
  await put(driver, '/file', 'old')
  seen.fate = (step) => (step === 3 ? { answer: '550 No.' } : 'pass')
  await refuses(t, () => put(driver, '/file', 'new'), 'denied', 'a write')
  t.same(await readdir(files), ['file'])
  t.equal(await textAt(driver, '/file'), 'old')
})

void t.test('FTP shortens the backup’s name for a file with a name of maximum length', { skip }, async (t) => {
  const { driver, files } = await mounted(t)
  const name = `${'é'.repeat(120)}.txt`
  await put(driver, `/${name}`, 'old')
  await put(driver, `/${name}`, 'new')
  t.same(await readdir(files), [name])
  t.equal(await textAt(driver, `/${name}`), 'new')
})

void t.test('FTP: an aborted move restores the old file', { skip }, async (t) => {
  const { driver, files, seen } = await mounted(t)
  await put(driver, '/from', 'new')
  await put(driver, '/to', 'old')
  const controller = new AbortController()
  seen.fate = (step) => {
    if (step === 2) controller.abort()
    return 'pass'
  }
  await refuses(
    t,
    async () => driver.move?.(at('/from'), at('/to'), { signal: controller.signal }),
    'aborted',
    'a move',
  )
  t.same((await readdir(files)).sort(), ['from', 'to'])
  t.equal(await textAt(driver, '/to'), 'old')
  t.equal(await textAt(driver, '/from'), 'new')
})

void t.test('FTP restores the old file on a server with one connection', { skip }, async (t) => {
  const { driver, files, seen } = await mounted(t, { connections: 1 })
  await put(driver, '/file', 'old')
  // The second call is refused a connection, by which the pool learns the server's limit.
  await Promise.all([driver.stat(at('/file')), driver.stat(at('/file'))])
  seen.fate = (step) => (step === 2 ? 'lost' : 'pass')
  const writing = refuses(t, () => put(driver, '/file', 'new'), 'unavailable', 'a write')
  t.equal((await driver.stat(at('/file'))).size, 3, 'a waiting call comes after the restoration')
  await writing
  t.same(await readdir(files), ['file'])
  t.equal(await textAt(driver, '/file'), 'old')
})

void t.test('FTP: closing a storage waits for a replacement in progress', { skip }, async (t) => {
  const { driver, files, seen } = await mounted(t)
  await put(driver, '/file', 'old')
  let closing: Promise<void> | undefined
  seen.fate = (step) => {
    if (step === 2) closing = driver.close?.()
    return 'pass'
  }
  await put(driver, '/file', 'new')
  await closing
  t.same(await readdir(files), ['file'])
  t.equal(await readFile(join(files, 'file'), 'utf8'), 'new')
})
