/** What tasks are about, in the API: their names, which clients parse, and their parts. */
import { z } from 'zod'
import { under } from '../../../src/base/path.js'
import type { TaskPlace, TaskSubject } from '../../../src/tasks/task.js'

export function taskName(subject: TaskSubject): string {
  if ('text' in subject) return subject.text
  switch (subject.verb) {
    case 'upload':
      return `upload ${subject.name} to ${link(subject.to)}`
    case 'download':
      return `download ${subject.address} to (${subject.to})`
    default:
      return `${subject.verb} ${link(subject.from)} to ${link(subject.to)}`
  }
}

export const taskSubjectData = z
  .object({
    verb: z.enum(['copy', 'move', 'merge', 'upload', 'download', 'transfer']),
    from: z.string().describe('The path of what is copied, moved or transferred; the name of an upload; or a URL.'),
    to: z.string().describe('The path of the folder that gets it.'),
  })
  .meta({ id: 'TaskSubject' })

/** Null for a task of an earlier version, which has a name only. */
export function taskSubject(subject: TaskSubject): z.input<typeof taskSubjectData> | null {
  if ('text' in subject) return null
  const { verb } = subject
  switch (verb) {
    case 'upload':
      return { verb, from: subject.name, to: pathOf(subject.to) }
    case 'download':
      return { verb, from: subject.address, to: subject.to }
    default:
      return { verb, from: 'name' in subject.from ? subject.from.name : pathOf(subject.from), to: pathOf(subject.to) }
  }
}

function pathOf({ mount, inner }: TaskPlace): string {
  return under(mount, inner)
}

/** A path as `[/mount](/path/inside)`, which clients show as a link; as `[](name)` if it is not in the tree. */
function link(place: TaskPlace | { readonly name: string }): string {
  return 'name' in place ? `[](${place.name})` : `[${place.mount}](${place.inner})`
}
