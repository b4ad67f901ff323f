/** The names of tasks for people. The API has them in English, with paths as clients of the family parse them. */
import { joined, nameOf } from '../components/places.ts'
import { textsOf } from '../texts/texts.ts'

const texts = textsOf('tasks')

/** `[/mount](/path/inside)`, or `[](name)` for what is not in the tree. */
const place = String.raw`\[([^\]]*)\]\((.*)\)`
const between = new RegExp(`^(copy|move|merge|transfer) ${place} to ${place}$`)
const uploaded = new RegExp(`^upload (.*) to ${place}$`)
const downloaded = /^download (.*) to \((.*)\)$/

/** As it is if it has another form. */
export function shownName(name: string): string {
  const [, verb, ...places] = between.exec(name) ?? []
  if (verb !== undefined) {
    const [mount = '', inner = '', otherMount = '', otherInner = ''] = places
    const [from, to] = [pathOf(mount, inner), pathOf(otherMount, otherInner)]
    const moved = nameOf(from) || from
    return verb === 'move' ? texts.tasks.move(moved, to) : texts.tasks.copy(moved, to)
  }
  const [, file, mount = '', inner = ''] = uploaded.exec(name) ?? []
  if (file !== undefined) return texts.tasks.upload(file, pathOf(mount, inner))
  const [, url, folder = ''] = downloaded.exec(name) ?? []
  return url === undefined ? name : texts.tasks.download(url, folder)
}

function pathOf(mount: string, inner: string): string {
  if (mount === '' || inner === '/') return mount || inner
  return joined(mount, inner.replace(/^\//, ''))
}
