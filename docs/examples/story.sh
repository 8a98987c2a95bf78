passdown init
passdown task new T-1 --title "Login" --agent planner
passdown task new T-2 --title "Staging roll-out" --agent planner --needs T-1
passdown decide "JWT in an httpOnly cookie" --why "scripts cannot read it" --task T-1 --agent planner
passdown handoff --task T-1 --from planner --to coder --outcome completed --phase implementing --next "Write the middleware"
passdown handoff handoff.yaml --dry-run
passdown handoff handoff.yaml
passdown task list
passdown brief T-1 --agent tester --budget 300
passdown show T-1#d1
passdown diff T-1 1 4
passdown verify
