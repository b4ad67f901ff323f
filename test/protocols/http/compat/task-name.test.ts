/** The names of tasks, from which clients make links. */
import t from 'tap'
import { taskName, taskSubject } from '../../../../protocols/http/compat/task-name.js'
import { asPath } from '../../../../src/base/path.js'
import { subjectOf, type TaskSubject } from '../../../../src/tasks/task.js'

const place = (mount: string, inner: string) => ({ mount: asPath(mount), inner: asPath(inner) })
const to = place('/far', '/b')

void t.test('a name has the verb, and each path as a link', async (t) => {
  const subjects: readonly (readonly [TaskSubject, string])[] = [
    [{ verb: 'copy', from: place('/', '/a'), to }, 'copy [/](/a) to [/far](/b)'],
    [{ verb: 'move', from: place('/', '/a'), to }, 'move [/](/a) to [/far](/b)'],
    [{ verb: 'merge', from: place('/', '/a'), to }, 'merge [/](/a) to [/far](/b)'],
    [{ verb: 'upload', name: 'file', to }, 'upload file to [/far](/b)'],
    [{ verb: 'download', address: 'magnet:?a', to: asPath('/far/b') }, 'download magnet:?a to (/far/b)'],
    [{ verb: 'transfer', from: { name: 'film.mp4' }, to }, 'transfer [](film.mp4) to [/far](/b)'],
    [{ verb: 'transfer', from: place('/cloud', '/t/film.mp4'), to }, 'transfer [/cloud](/t/film.mp4) to [/far](/b)'],
  ]
  for (const [subject, name] of subjects) t.equal(taskName(subjectOf({ subject: JSON.stringify(subject) })), name)
})

void t.test('the parts of a name are plain paths, names and addresses', async (t) => {
  const parts: readonly (readonly [TaskSubject, object])[] = [
    [
      { verb: 'copy', from: place('/', '/a'), to },
      { verb: 'copy', from: '/a', to: '/far/b' },
    ],
    [
      { verb: 'merge', from: place('/far', '/'), to: place('/', '/') },
      { verb: 'merge', from: '/far', to: '/' },
    ],
    [
      { verb: 'upload', name: 'file', to },
      { verb: 'upload', from: 'file', to: '/far/b' },
    ],
    [
      { verb: 'download', address: 'magnet:?a', to: asPath('/far/b') },
      { verb: 'download', from: 'magnet:?a', to: '/far/b' },
    ],
    [
      { verb: 'transfer', from: { name: 'film.mp4' }, to },
      { verb: 'transfer', from: 'film.mp4', to: '/far/b' },
    ],
  ]
  for (const [subject, expected] of parts) t.strictSame(taskSubject(subject), expected)
})

void t.test('the name that an earlier version stored is kept', async (t) => {
  const stored = 'copy [/](/a) to [/far](/b)'
  t.equal(taskName(subjectOf({ subject: stored })), stored)
  t.equal(taskSubject(subjectOf({ subject: stored })), null)
})
