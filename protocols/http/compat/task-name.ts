/** The names of tasks in the API. Clients parse them. */
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

/** A path as `[/mount](/path/inside)`, which clients show as a link; as `[](name)` if it is not in the tree. */
function link(place: TaskPlace | { readonly name: string }): string {
  return 'name' in place ? `[](${place.name})` : `[${place.mount}](${place.inner})`
}
