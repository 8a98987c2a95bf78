passdown init
passdown task new T-1 --title "Prices with tax" --agent planner
passdown run build.yaml --task T-1 --by kim
passdown runs
