/**
 * Random changes over AliyundriveOpen while calls fail, answers are lost and parts are cut: a change that succeeds has
 * happened, one that fails has happened or not, and nothing else is changed or left.
 */
import { randomInt } from 'node:crypto'
import t from 'tap'
import { isGatewayError, undefinedIfMissing } from '../../../src/base/errors.js'
import { at, put, textAt, type WritableDriver } from '../../driver-conformance/subject.js'
import { startAliyundrive } from '../../doubles/aliyundrive.js'
import { fullWait, shortenWaits } from '../../short-waits.js'
import { newMount } from './mount.js'
import { entriesOf, memoryState } from '../lib/cloud/vendor.js'

// Nearly all of the time would be spent before calls that are repeated.
shortenWaits(20)

const rounds = process.env.TIDEGATE_VARIANTS === 'all' ? 300 : 60
const paths = ['/a', '/b', '/folder/a', '/folder/b']
const json = { 'content-type': 'application/json' }
const faults = [
  { answer: 500, headers: json, body: '{"code":"InternalError"}' },
  { answer: 403, headers: json, body: '{"code":"ForbiddenNoPermission.File"}' },
  { answer: 502, headers: json, body: '{}' },
  { loseAnswer: true },
] as const
const targets = [
  /openFile\/create/,
  /openFile\/complete/,
  /openFile\/(?:move|update|copy)/,
  /recyclebin/,
  /openFile\/list/,
  /^PUT /,
]

type Content = string | undefined
/** The contents of all paths. */
type Files = Readonly<Record<string, Content>>

const pick = <T>(list: readonly T[]): T => list[randomInt(list.length)]!

/** A random change, and what it makes of the files. */
function change(driver: WritableDriver, files: Files, content: string) {
  const [one, other] = [pick(paths), pick(paths)]
  const kind = pick(['write', 'write', 'write', 'move', 'copy', 'remove'])
  const has = files[one] !== undefined && one !== other
  if (kind === 'move' && has) {
    return {
      name: `move ${one} ${other}`,
      run: async () => driver.move?.(at(one), at(other)),
      after: { ...files, [one]: undefined, [other]: files[one] },
    }
  }
  if (kind === 'copy' && has) {
    return {
      name: `copy ${one} ${other}`,
      run: async () => driver.copy?.(at(one), at(other)),
      after: { ...files, [other]: files[one] },
    }
  }
  if (kind === 'remove' && files[one] !== undefined) {
    return { name: `remove ${one}`, run: () => driver.remove(at(one)), after: { ...files, [one]: undefined } }
  }
  return { name: `write ${one}`, run: () => put(driver, one, content), after: { ...files, [one]: content } }
}

for (const isRapid of [false, true]) {
  await t.test(`no change is half done, lost or left; rapid uploads: ${isRapid}`, { timeout: 600_000 }, async (t) => {
    const double = await startAliyundrive(t)
    const memory = memoryState()
    const { state } = memory
    const { driver, folder, driveId } = await newMount(t, double, {
      options: { rapid_upload: isRapid },
      env: { state },
    })
    await driver.mkdir(at('/folder'))
    let files: Files = Object.fromEntries(paths.map((path) => [path, undefined]))
    const found = async (): Promise<Files> => {
      const entries = paths.map(async (path) => [path, await undefinedIfMissing(textAt(driver, path))] as const)
      return Object.fromEntries(await Promise.all(entries))
    }
    for (let round = 0; round < rounds; round++) {
      // With rapid uploads, of every two files of one beginning the service knows the second.
      const content = isRapid ? `${round % 2} ${round >> 1}`.padEnd(102_401) : `content ${round}`
      if (isRapid && round % 2 === 1) await double.learn(content)
      const { name, run, after } = change(driver, files, content)
      const fault = pick(faults)
      const target = pick(targets)
      if (randomInt(3) > 0) double.requests.inject(target, fault, randomInt(1, 4))
      const outcome = await run().then(
        () => 'done',
        (error: unknown) => (isGatewayError(error) ? error.code : String(error)),
      )
      double.requests.clearFaults()
      // What is to be done in the background.
      const isPending = () =>
        entriesOf(memory, 'replacements').length > 0 || entriesOf(memory, 'publications').length > 0
      for (let waited = 0; isPending() && waited < 100; waited++) await fullWait(20)
      const now = await found()
      const told = `${round}: ${name}, ${JSON.stringify(fault)} for ${String(target)}: ${outcome}`
      const expected = outcome === 'done' ? [after] : [files, after]
      const isExpected = expected.some((each) => JSON.stringify(each) === JSON.stringify(now))
      t.ok(isExpected, told, { before: shortened(files), now: shortened(now) })
      files = now
    }
    const members = double.drives.members(driveId, folder.fileId)
    const below = members.flatMap(({ fileId }) => double.drives.members(driveId, fileId))
    const names = [...members.map(({ name }) => `/${name}`), ...below.map(({ name }) => `/folder/${name}`)]
    const expected = ['/folder', ...paths.filter((path) => files[path] !== undefined)]
    t.same(names.sort(), expected.sort(), 'nothing is left')
  })
}

function shortened(files: Files): Files {
  return Object.fromEntries(Object.entries(files).map(([path, content]) => [path, content?.trim()]))
}
