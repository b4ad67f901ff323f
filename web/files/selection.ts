/** The names of the selected entries of the folder that is shown. */
import { signal } from '@preact/signals'

export const selection = signal<ReadonlySet<string>>(new Set())

export function select(names: Iterable<string>): void {
  selection.value = new Set(names)
}

export function toggle(name: string): void {
  const names = new Set(selection.value)
  if (!names.delete(name)) names.add(name)
  selection.value = names
}

export function clearSelection(): void {
  if (selection.value.size > 0) selection.value = new Set()
}
