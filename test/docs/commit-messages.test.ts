/** The git hook that checks commit messages, and the release notes that are made from them. */
import { spawnSync } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import t from 'tap'

void t.test(
  'the hook refuses a message without an area, with two facts, without a body, or without a kind of change',
  async (t) => {
    const file = join(t.testdir(), 'message')
    const statusOf = async (message: string) => {
      await writeFile(file, message)
      return spawnSync('.githooks/commit-msg', [file]).status
    }
    const reason = '\n\nIt stayed for ever.\n'
    const body = `${reason}\nChangelog: fixed\n`
    t.equal(await statusOf(`webdav: a lock ends with its owner${body}`), 0)
    t.equal(await statusOf(`protocols/lib: a lock ends${body}# a comment`), 0)
    t.equal(await statusOf(`webdav: a lock ends${reason}\nChangelog: none\n`), 0, 'users do not notice it')
    t.equal(await statusOf('Merge branch "next"\n'), 0)
    const refused = ['A lock ends', 'webdav: locks end; tokens too', 'webdav: locks end.', `a: ${'x'.repeat(100)}`]
    for (const subject of refused) t.equal(await statusOf(subject + body), 1, subject)
    t.equal(await statusOf('webdav: a lock ends\n\nChangelog: fixed\n'), 1, 'a trailer is not a body')
    t.equal(await statusOf(`webdav: a lock ends${reason}`), 1, 'no kind')
    t.equal(await statusOf(`webdav: a lock ends${reason}\nChangelog: nice\n`), 1, 'an unknown kind')
  },
)

void t.test('release notes are the subjects of commits that users notice, by kind', async (t) => {
  const cwd = t.testdir()
  const author = ['-c', 'user.name=ann', '-c', 'user.email=ann@example.org', '-c', 'commit.gpgsign=false']
  const commit = (message: string) => spawnSync('git', [...author, 'commit', '--allow-empty', '-m', message], { cwd })
  spawnSync('git', ['init'], { cwd })
  commit('core: the first\n\nWhy.\n\nChangelog: added')
  const notes = () => spawnSync(resolve('.ci/release-notes'), { cwd, encoding: 'utf8' }).stdout
  t.equal(notes(), '### Added\n\n- core: the first\n\n', 'without a tag: all commits')
  spawnSync('git', ['tag', 'v1'], { cwd })
  commit('sftp: an end\n\nWhy.\n\nChangelog: fixed')
  commit('core: nothing that users notice\n\nWhy.\n\nChangelog: none')
  commit('webdav: a beginning\n\nWhy.\n\nChangelog: added')
  commit('api: another end\n\nWhy.\n\nChangelog: fixed')
  commit('api: a mistake\n\nWhy.\n\nChangelog: changed')
  const hash = spawnSync('git', ['rev-parse', 'HEAD'], { cwd, encoding: 'utf8' }).stdout.trim()
  commit(`api: no mistake\n\nThis reverts commit ${hash}. Why.\n\nChangelog: none`)
  const { stdout } = spawnSync(resolve('.ci/release-notes'), { cwd, encoding: 'utf8' })
  t.equal(stdout, '### Added\n\n- webdav: a beginning\n\n### Fixed\n\n- sftp: an end\n- api: another end\n\n')
  await writeFile(join(cwd, 'CHANGELOG.md'), `# Changelog\n\n<!-- The last commit whose lines are here: ${hash} -->\n`)
  commit('api: a third end\n\nWhy.\n\nChangelog: fixed')
  t.equal(notes(), '### Fixed\n\n- api: a third end\n\n', 'with the last commit of the change log: those after it')
})
