/** The contract of `move()` and `copy()`. */
import {
  at,
  isEmptied,
  listed,
  makeFolder,
  namesIn,
  put,
  missesParent,
  refuses,
  textAt,
  without,
  type Run,
} from './subject.js'

export async function moveTests(run: Run): Promise<void> {
  await run(
    'move() moves a file with its time',
    async (t, subject) => {
      const { driver } = subject
      const move = async (from: string, to: string) => driver.move?.(at(from), at(to))
      for (const folder of ['/from', '/to']) await driver.mkdir(at(folder))
      await put(driver, '/from/file', 'hello')
      await driver.setAttributes?.(at('/from/file'), { modified: new Date(1_000_000_000_000) })
      const { modified } = await driver.stat(at('/from/file'))
      await move('/from/file', '/to/moved')
      await isEmptied(t, subject, '/from')
      t.equal(await textAt(driver, '/to/moved'), 'hello')
      t.same((await driver.stat(at('/to/moved'))).modified, modified, 'its time is unchanged')
      await move('/to/moved', '/file')
      await isEmptied(t, subject, '/to')
      await move('/file', '/file')
      t.equal(await textAt(driver, '/file'), 'hello', 'a move onto itself changes nothing')
      await move('/file', '/FILE')
      t.equal(await textAt(driver, '/FILE'), 'hello')
      const names = (await namesIn(driver, '/')).filter((name) => name.toLowerCase() === 'file')
      t.same(names, ['FILE'], 'a change of case loses no file')
    },
    without('move'),
  )

  await run(
    'move() moves a whole tree',
    async (t, { driver, traits }) => {
      if (!traits.emptyFolders) {
        t.pass('trees', { skip: 'the core moves the folders of such a driver file by file' })
        return
      }
      for (const folder of ['/from', '/from/deep', '/from/empty', '/to']) await driver.mkdir(at(folder))
      await put(driver, '/from/deep/file', 'hello')
      await driver.setAttributes?.(at('/from/deep/file'), { modified: new Date(1_000_000_000_000) })
      const { modified } = await driver.stat(at('/from/deep/file'))
      await driver.move?.(at('/from'), at('/to/moved'))
      t.same(await namesIn(driver, '/'), ['to'])
      t.same(await namesIn(driver, '/to/moved'), ['deep', 'empty'])
      t.same(await listed(driver, '/to/moved/empty'), [])
      t.equal(await textAt(driver, '/to/moved/deep/file'), 'hello')
      t.same((await driver.stat(at('/to/moved/deep/file'))).modified, modified, 'times are unchanged')
    },
    without('move'),
  )

  await run(
    'move() replaces a file, and rejects for other existing targets',
    async (t, subject) => {
      const { driver, traits } = subject
      const move = async (from: string, to: string) => driver.move?.(at(from), at(to))
      for (const folder of ['/folder', '/folder/below', '/other']) await makeFolder(subject, folder)
      await put(driver, '/one', 'one')
      await put(driver, '/two', 'two')
      await move('/one', '/two')
      t.equal(await textAt(driver, '/two'), 'one')
      await refuses(t, () => move('/one', '/three'), 'not_found', 'a missing source')
      await refuses(t, () => move('/two', '/folder'), 'is_folder', 'a file over a folder')
      if (traits.emptyFolders) {
        await refuses(t, () => move('/other', '/folder'), 'is_folder', 'a folder over a folder')
        await refuses(t, () => move('/other', '/two'), 'exists', 'a folder over a file')
      }
      await refuses(t, () => move('/folder', '/folder/below/in'), 'invalid', 'a folder into itself')
      await missesParent(t, subject, () => move('/two', '/no/two'))
      await refuses(t, () => move('/two', '/two/three'), ['invalid', 'not_folder', 'parent_missing'], 'below itself')
      await refuses(t, () => move('/', '/other/root'), ['invalid', 'denied'], 'the root')
      t.same(await namesIn(driver, '/'), ['folder', 'other', 'two'])
      t.equal(await textAt(driver, '/two'), 'one')
    },
    without('move'),
  )

  await run(
    'copy() copies one file with its time and mode',
    async (t, subject) => {
      const { driver, traits } = subject
      const copy = async (from: string, to: string) => driver.copy?.(at(from), at(to))
      const data = 'hello'.repeat(500_000)
      const original = await put(driver, '/file', data)
      await driver.mkdir(at('/folder'))
      await copy('/file', '/folder/copy')
      t.equal(await textAt(driver, '/folder/copy'), data)
      t.equal(await textAt(driver, '/file'), data)
      const copied = await driver.stat(at('/folder/copy'))
      t.ok(Math.abs(copied.modified.getTime() - original.modified.getTime()) <= traits.timeStep, 'the time is copied')
      t.equal(copied.mode, original.mode)
      await put(driver, '/file', 'changed')
      t.equal(await textAt(driver, '/folder/copy'), data, 'the copy is independent')
      await copy('/file', '/folder/copy')
      t.equal(await textAt(driver, '/folder/copy'), 'changed', 'an existing file is replaced')
      await put(driver, '/empty', '')
      await copy('/empty', '/folder/copy')
      t.equal(await textAt(driver, '/folder/copy'), '')
      await refuses(t, () => copy('/none', '/new'), 'not_found', 'a missing file')
      await refuses(t, () => copy('/folder', '/new'), 'is_folder', 'a folder')
      await refuses(t, () => copy('/file', '/folder'), 'is_folder', 'over a folder')
      await missesParent(t, subject, () => copy('/file', '/no/file'))
      const options = { createOnly: true }
      await refuses(t, async () => driver.copy?.(at('/file'), at('/empty'), options), 'exists', 'with createOnly')
      const signal = AbortSignal.abort()
      await refuses(t, async () => driver.copy?.(at('/file'), at('/new'), { signal }), 'aborted', 'aborted')
      t.same(await namesIn(driver, '/'), ['empty', 'file', 'folder'])
    },
    without('copy'),
  )
}
