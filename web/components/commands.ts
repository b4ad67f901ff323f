/** What can be done on the page that is shown, for the search dialog. */
import { signal } from '@preact/signals'
import type { LucideIcon } from 'lucide-preact'
import { useEffect, useRef } from 'preact/hooks'

export interface Command {
  readonly name: string
  readonly Icon: LucideIcon | undefined
  readonly run: () => void
}

/** The commands of the components that are shown. */
export const commands = signal<readonly Command[]>([])

/** Offers a command as long as the component is shown and `isOffered` is true. */
export function useCommand(name: string, Icon: LucideIcon | undefined, run: () => void, isOffered: boolean): void {
  const latest = useRef(run)
  latest.current = run
  useEffect(() => {
    if (!isOffered) return
    const command: Command = { name, Icon, run: () => latest.current() }
    commands.value = [...commands.peek(), command]
    return () => (commands.value = commands.peek().filter((each) => each !== command))
  }, [name, Icon, isOffered])
}
