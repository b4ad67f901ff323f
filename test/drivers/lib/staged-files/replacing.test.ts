/**
 * What becomes of replacements that were interrupted at any step: on servers that replace, and on those that cannot.
 */
import t, { type Test } from 'tap'
import {
  Replacements,
  settle,
  type FoundFile,
  type Replacement,
} from '../../../../drivers/lib/staged-files/replacing.js'
import { asPath, type Path } from '../../../../src/base/path.js'
import { testEnv } from '../../env.js'
import { memoryState } from '../cloud/vendor.js'

const [from, to, backup] = [asPath('/.part'), asPath('/file'), asPath('/file~replaced-1')]

const { log } = testEnv()
const exclusively = <T>(_path: Path, work: () => Promise<T>) => work()

/** Files by path: their content, which is their identity too. */
function server(files: Readonly<Record<string, string>>) {
  const stored = new Map(Object.entries(files))
  let calls = 0
  const during = async <T>(work: () => T): Promise<T> => {
    if (++calls > 1) throw new Error('calls overlap')
    await Promise.resolve()
    calls--
    return work()
  }
  return {
    files: {
      find: (path: Path) =>
        during((): FoundFile | undefined => {
          const content = stored.get(path)
          return content === undefined ? undefined : { identity: content, size: content.length }
        }),
      move: (one: Path, other: Path) =>
        during(() => {
          const content = stored.get(one)
          if (content === undefined || stored.has(other)) throw new Error(`no move from ${one} to ${other}`)
          stored.delete(one)
          stored.set(other, content)
        }),
      remove: (path: Path) => during(() => void stored.delete(path)),
    },
    left: () =>
      Object.fromEntries([...stored].sort().map(([path, content]) => [path.replace(/-[\da-f]{8}$/, ''), content])),
  }
}

type Row = readonly [files: Record<string, string>, outcome: string, left: Record<string, string>]

async function settles(t: Test, replacement: Replacement, rows: readonly Row[]): Promise<void> {
  for (const [files, outcome, left] of rows) {
    const { files: drive, left: remaining } = server(files)
    const title = Object.keys(files).join(' and ') || 'nothing'
    t.equal((await settle(drive, replacement)).outcome, outcome, title)
    t.strictSame(remaining(), left, title)
    await settle(drive, replacement)
    t.strictSame(remaining(), left, `${title}: a second time changes nothing`)
  }
}

await t.test('a file that was to be set aside', (t) =>
  settles(t, { from, to, backup, isStaged: true, size: 3 }, [
    [{ [to]: 'old', [from]: 'new' }, 'restored', { [to]: 'old' }],
    [{ [backup]: 'old', [from]: 'new' }, 'restored', { [to]: 'old' }],
    [{ [backup]: 'old', [to]: 'new' }, 'replaced', { [to]: 'new' }],
    [{ [to]: 'new' }, 'replaced', { [to]: 'new' }],
    [{ [from]: 'new' }, 'replaced', { [to]: 'new' }],
    [{ [backup]: 'old', [to]: 'n' }, 'both', { [to]: 'n', [backup]: 'old' }],
    [{ [backup]: 'old', [to]: 'other', [from]: 'new' }, 'both', { [to]: 'other', [backup]: 'old' }],
    [{}, 'restored', {}],
  ]),
)

await t.test('a file that is moved over another one of the user stays where it is', (t) =>
  settles(t, { from: asPath('/mine'), to, backup, isStaged: false }, [
    [{ [to]: 'old', '/mine': 'new' }, 'restored', { [to]: 'old', '/mine': 'new' }],
    [{ [backup]: 'old', '/mine': 'new' }, 'restored', { [to]: 'old', '/mine': 'new' }],
    [{ '/mine': 'new' }, 'restored', { '/mine': 'new' }],
  ]),
)

await t.test('a move by which the server replaces a file', (t) =>
  settles(t, { from, to, old: 'old', isStaged: true }, [
    [{ [to]: 'old', [from]: 'new' }, 'restored', { [to]: 'old' }],
    [{ [from]: 'new' }, 'replaced', { [to]: 'new' }],
    [{ [to]: 'new' }, 'replaced', { [to]: 'new' }],
    [{ [to]: 'n', [from]: 'new' }, 'both', { [to]: 'n', '/file~kept': 'new' }],
  ]),
)

await t.test('a move of a new file', (t) =>
  settles(t, { from, to, isStaged: true }, [
    [{ [from]: 'new' }, 'restored', {}],
    [{ [to]: 'new', [from]: 'new' }, 'restored', { [to]: 'new' }],
  ]),
)

await t.test('a name is settled before it is changed again', async (t) => {
  const { files, left } = server({ [to]: 'old', [from]: 'new' })
  let isCut = false
  // The old file is set aside, then the connection is cut.
  const cut = () => Promise.reject<undefined>(new Error('cut'))
  const cutting = {
    find: (path: Path) => (isCut ? cut() : files.find(path)),
    move: async (one: Path, other: Path) => {
      if (isCut) await cut()
      await files.move(one, other)
      isCut = true
    },
    remove: files.remove,
  }
  const replacements = new Replacements({
    ...{ files: cutting, maxName: 120, env: { state: memoryState().state, log }, exclusively },
  })
  await replacements.settle()
  await t.rejects(replacements.replace(from, to, true))
  t.strictSame(left(), { '/file~replaced': 'old', [from]: 'new' })
  await t.rejects(replacements.settleAt(to), 'not before the server answers')
  isCut = false
  cutting.move = (one, other) => files.move(one, other)
  await replacements.settleAt(asPath('/other'))
  t.strictSame(left(), { '/file~replaced': 'old', [from]: 'new' }, 'another name is not asked for')
  await replacements.settleAt(to)
  t.strictSame(left(), { [to]: 'old' })
})

await t.test('a change of spelling that was interrupted is completed by the next run', async (t) => {
  const { files, left } = server({ '/File': 'x' })
  const { state } = memoryState()
  const open = (moves: number) => {
    let done = 0
    // A kill: nothing happens any more, and nobody gets an answer.
    const move: typeof files.move = (one, other) =>
      ++done > moves ? new Promise(() => undefined) : files.move(one, other)
    return new Replacements({ files: { ...files, move }, maxName: 120, env: { state, log }, exclusively })
  }
  const first = open(1)
  void first.respell(asPath('/File'), to, false)
  await new Promise((resolve) => setTimeout(resolve, 20))
  t.match(Object.keys(left()), [/^\/file~kept$/])
  const second = open(9)
  await second.load()
  t.strictSame(left(), { '/file': 'x' })
  t.notOk(second.isBackup(to))
})
