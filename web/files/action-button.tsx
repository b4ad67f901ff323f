/** The button of an action. There is none if the user has no right to it. */
import type { LucideIcon } from 'lucide-preact'
import { useCommand } from '../components/commands.ts'
import { textsOf } from '../texts/texts.ts'
import type { Action, Actions } from './actions.ts'

const texts = textsOf('files')

interface ActionButtonProps {
  readonly actions: Actions
  readonly action: Action
  readonly Icon?: LucideIcon | undefined
}

export function ActionButton({ actions, action, Icon }: ActionButtonProps) {
  const isOffered = actions.grants(action) && actions.allows(action)
  useCommand(texts.files[action], Icon, () => actions.start(action), isOffered)
  if (!actions.grants(action)) return null
  return (
    <button type="button" disabled={!actions.allows(action)} onClick={() => actions.start(action)}>
      {Icon && <Icon aria-hidden size={16} />}
      <span class="text">{texts.files[action]}</span>
    </button>
  )
}
