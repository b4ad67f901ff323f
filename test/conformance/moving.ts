import { at, listed, namesIn, put, missesParent, refuses, textAt, without, type Run } from './subject.js'

export async function moveTests(run: Run): Promise<void> {
  await run(
    'move() takes a file or a whole tree along',
    async (t, { driver }) => {
      const move = async (from: string, to: string) => driver.move?.(at(from), at(to))
      for (const folder of ['/from', '/from/deep', '/to']) await driver.mkdir(at(folder))
      await put(driver, '/from/deep/file', 'hello')
      await driver.setAttributes?.(at('/from/deep/file'), { modified: new Date(1_000_000_000_000) })
      const { modified } = await driver.stat(at('/from/deep/file'))
      await move('/from', '/to/moved')
      t.same(await namesIn(driver, '/'), ['to'])
      t.equal(await textAt(driver, '/to/moved/deep/file'), 'hello')
      t.same((await driver.stat(at('/to/moved/deep/file'))).modified, modified, 'times go along')
      await move('/to/moved/deep/file', '/file')
      t.equal(await textAt(driver, '/file'), 'hello')
      t.same(await listed(driver, '/to/moved/deep'), [])
      await move('/file', '/file')
      t.equal(await textAt(driver, '/file'), 'hello', 'onto itself: nothing happens')
      await move('/file', '/FILE')
      t.same(await namesIn(driver, '/'), ['FILE', 'to'], 'a change of case alone loses nothing')
    },
    without('move'),
  )

  await run(
    'move() replaces a file, and refuses what cannot be',
    async (t, subject) => {
      const { driver } = subject
      const move = async (from: string, to: string) => driver.move?.(at(from), at(to))
      for (const folder of ['/folder', '/folder/below', '/other']) await driver.mkdir(at(folder))
      await put(driver, '/one', 'one')
      await put(driver, '/two', 'two')
      await move('/one', '/two')
      t.equal(await textAt(driver, '/two'), 'one')
      await refuses(t, () => move('/one', '/three'), 'not_found', 'what is gone')
      await refuses(t, () => move('/two', '/folder'), 'is_dir', 'a file over a folder')
      await refuses(t, () => move('/other', '/folder'), 'is_dir', 'a folder over a folder')
      await refuses(t, () => move('/other', '/two'), 'exists', 'a folder over a file')
      await refuses(t, () => move('/folder', '/folder/below/in'), 'invalid', 'a folder into itself')
      await missesParent(t, subject, () => move('/two', '/no/two'))
      await refuses(t, () => move('/two', '/two/three'), ['invalid', 'not_dir', 'parent_missing'], 'below itself')
      await refuses(t, () => move('/', '/other/root'), ['invalid', 'denied'], 'the root')
      t.same(await namesIn(driver, '/'), ['folder', 'other', 'two'])
      t.equal(await textAt(driver, '/two'), 'one')
    },
    without('move'),
  )

  await run(
    'copy() makes a second file of one',
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
      t.ok(Math.abs(copied.modified.getTime() - original.modified.getTime()) <= traits.timeStep, 'the time goes along')
      t.equal(copied.mode, original.mode)
      await put(driver, '/file', 'changed')
      t.equal(await textAt(driver, '/folder/copy'), data, 'they are two')
      await copy('/file', '/folder/copy')
      t.equal(await textAt(driver, '/folder/copy'), 'changed', 'it replaces a file')
      await put(driver, '/empty', '')
      await copy('/empty', '/folder/copy')
      t.equal(await textAt(driver, '/folder/copy'), '')
      await refuses(t, () => copy('/none', '/new'), 'not_found', 'of nothing')
      await refuses(t, () => copy('/folder', '/new'), 'is_dir', 'of a folder')
      await refuses(t, () => copy('/file', '/folder'), 'is_dir', 'over a folder')
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
