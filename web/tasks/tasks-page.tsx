export default function TasksPage(_: { readonly me?: unknown }) {
  return <p>TasksPage</p>
}
