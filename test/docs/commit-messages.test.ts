/** The git hook that checks commit messages. */
import { spawnSync } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'

void t.test('the hook refuses a message without an area, with two facts, or without a body', async (t) => {
  const file = join(t.testdir(), 'message')
  const statusOf = async (message: string) => {
    await writeFile(file, message)
    return spawnSync('.githooks/commit-msg', [file]).status
  }
  const body = '\n\nIt stayed for ever.\n'
  t.equal(await statusOf(`webdav: a lock ends with its owner${body}`), 0)
  t.equal(await statusOf(`protocols/lib: a lock ends${body}# a comment`), 0)
  t.equal(await statusOf('Merge branch "next"\n'), 0)
  const refused = ['A lock ends', 'webdav: locks end; tokens too', 'webdav: locks end.', `a: ${'x'.repeat(100)}`]
  for (const subject of refused) t.equal(await statusOf(subject + body), 1, subject)
  t.equal(await statusOf('webdav: a lock ends with its owner\n\n# a comment\n'), 1, 'without a body')
})
