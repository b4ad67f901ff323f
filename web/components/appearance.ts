/** How the console looks in this browser, as the user has chosen: its colors, the height of rows, what is shown. */
import { effect, signal, type Signal } from '@preact/signals'

export interface Choice<Value extends string> {
  readonly values: readonly [Value, ...Value[]]
  readonly chosen: Signal<Value>
}

/** The first value is the usual one. The style sheet reads the choice from `data-NAME` of the root element. */
function choice<Value extends string>(name: string, ...values: readonly [Value, ...Value[]]): Choice<Value> {
  const chosen = signal(values.find((value) => value === localStorage.getItem(name)) ?? values[0])
  effect(() => {
    document.documentElement.dataset[name] = chosen.value
    if (chosen.value === values[0]) localStorage.removeItem(name)
    else localStorage.setItem(name, chosen.value)
  })
  return { values, chosen }
}

export const scheme = choice('scheme', 'system', 'light', 'dark')
export const rows = choice('rows', 'compact', 'comfortable')
/** Whether the side bar has names beside its symbols. */
export const sideBar = choice('places', 'names', 'symbols')

/** Whether the README.md of a folder is shown below its entries. */
export const readmes = choice('readmes', 'shown', 'hidden')

/** The height of a row of a list in pixels: higher where fingers point. */
export function rowHeight(): number {
  return parseFloat(getComputedStyle(document.documentElement).getPropertyValue('--row'))
}
